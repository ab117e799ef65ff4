package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/proc"
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
	dockertest.Await(t, time.Minute, "the thread has ended", func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread))
		return errors.Is(err, os.ErrNotExist)
	})
	_, _ = io.WriteString(p.Stdin(), "still here\n")
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if line != "still here\n" {
		t.Errorf("it says %q, %v", line, err)
	}
}

// gc kills what dead runs left, even if it left its process group, and nobody else.
func TestGC(t *testing.T) {
	temp := t.TempDir()
	b := open(t, temp, "dead")
	b.launcher.close()
	start := func(mark string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 100; done")
		cmd.SysProcAttr, cmd.Env = &syscall.SysProcAttr{Setsid: true}, append(os.Environ(), markVariable+"="+mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		return cmd
	}
	ours, other := start(b.dir.path+"/task-1:agent"), start(b.dir.path+"-not/task-1:agent")
	if err := b.dir.lock.Close(); err != nil { // as the runner's end does
		t.Fatal(err)
	}
	g, err := GC(temp)
	if err != nil || g.Processes < 1 || !slices.Equal(g.Runs, []string{"dead"}) {
		t.Errorf("%+v, %v", g, err)
	}
	for name, want := range map[string]struct {
		cmd   *exec.Cmd
		alive bool
	}{"ours": {ours, false}, "other": {other, true}} {
		if start, zombie := proc.StartTime(want.cmd.Process.Pid); (start != "" && !zombie) != want.alive {
			t.Errorf("%s: alive %t, want %t", name, !want.alive, want.alive)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
