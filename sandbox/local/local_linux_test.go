package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// A program lasts although the thread that asked for it does not. Were it started
// from there, the system would end it.
func TestProgramsOutliveThreads(t *testing.T) {
	b := open(t, t.TempDir(), "r")
	defer closed(t, b)
	s := stand(t, b)
	defer func() { _ = s.Close(context.Background()) }()
	type start struct {
		program process.Process
		thread  int
		err     error
	}
	starts := make(chan start)
	var startHere func()
	startHere = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with us
		if syscall.Gettid() == os.Getpid() {
			go startHere() // but not the first one
			return
		}
		p, err := s.Start(t.Context(), sandbox.Agent, process.Spec{Args: []string{"cat"}})
		starts <- start{p, syscall.Gettid(), err}
	}
	go startHere()
	got := <-starts
	if got.err != nil {
		t.Fatal(got.err)
	}
	thread, p := got.thread, got.program
	dockertest.Await(t, 10*time.Second, "the thread has ended", func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread))
		return errors.Is(err, os.ErrNotExist)
	})
	_, _ = io.WriteString(p.Stdin(), "still here\n")
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if line != "still here\n" {
		t.Errorf("it says %q, %v", line, err)
	}
}

// gc ends what dead runs left, asked and then made to, and nobody else: not what
// has a number that was one of ours.
func TestGC(t *testing.T) {
	temp := t.TempDir()
	b := open(t, temp, "dead")
	b.launcher.close()
	start := func(env string, script string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script)
		cmd.SysProcAttr, cmd.Env = &syscall.SysProcAttr{Setsid: true}, append(os.Environ(), env)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	remember := func(pid int, change func(*record)) {
		r := record{Boot: bootID(), Start: processStart(pid)}
		change(&r)
		data, _ := json.Marshal(r)
		if err := os.WriteFile(filepath.Join(b.claim.dir, processesDir, strconv.Itoa(pid)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deaf := start("", "trap '' TERM; while :; do sleep 100; done")
	stray := start(markVariable+"="+b.claim.dir+"/task-1:agent", "exec sleep 100")
	reused, rebooted, other := start("", "exec sleep 100"), start("", "exec sleep 100"), start(markVariable+"="+b.claim.dir+"-not/task-1:agent", "exec sleep 100")
	remember(deaf.Process.Pid, func(*record) {})
	remember(reused.Process.Pid, func(r *record) { r.Start += "1" })
	remember(rebooted.Process.Pid, func(r *record) { r.Boot = "another" })
	for name, content := range map[string]string{"nonsense": "{", "0": `{"boot":"","start":""}`, "1": "{}", "999999999999999999999": "{}"} {
		if err := os.WriteFile(filepath.Join(b.claim.dir, processesDir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.claim.lock.Close(); err != nil { // as the runner's end does
		t.Fatal(err)
	}
	g, err := GC(t.Context(), temp)
	if err != nil || g.Processes != 2 || !slices.Equal(g.Runs, []string{"dead"}) {
		t.Errorf("%+v, %v", g, err)
	}
	for name, want := range map[string]struct {
		cmd   *exec.Cmd
		alive bool
	}{"deaf": {deaf, false}, "stray": {stray, false}, "reused": {reused, true}, "rebooted": {rebooted, true}, "other": {other, true}} {
		if alive := processStart(want.cmd.Process.Pid) != ""; alive != want.alive {
			t.Errorf("%s: alive %t, want %t", name, alive, want.alive)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
