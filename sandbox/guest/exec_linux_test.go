package guest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/sandbox/process"
)

func sh(script string) process.Spec { return process.Spec{Args: []string{"sh", "-c", script}} }

func TestExec(t *testing.T) { overBoth(t, testExec) }

func testExec(t *testing.T, g *Guest) {
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "greet"), []byte("#!/bin/sh\necho hello from $0\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(bin, "data"), []byte("no program"), 0o644))

	tests := map[string]struct {
		spec   process.Spec
		stdin  string
		stdout string
		stderr string
		exit   process.Exit
	}{
		"stdin to stdout":       {spec: process.Spec{Args: []string{"cat"}}, stdin: "a\x00b\n", stdout: "a\x00b\n"},
		"stderr apart":          {spec: sh("echo out; echo err >&2"), stdout: "out\n", stderr: "err\n"},
		"exit code":             {spec: sh("exit 7"), exit: process.Exit{Code: 7}},
		"ended by a signal":     {spec: sh("kill -TERM $$"), exit: process.Exit{Code: -1, Signal: "SIGTERM"}},
		"closes stdout early":   {spec: sh("exec >&-; cat >&2"), stdin: "late", stderr: "late"},
		"never reads stdin":     {spec: sh("echo done"), stdin: strings.Repeat("x", 1<<20), stdout: "done\n"},
		"environment, last won": {spec: process.Spec{Args: []string{"sh", "-c", "echo $A"}, Env: []string{"A=1", "A=2"}}, stdout: "2\n"},
		"directory":             {spec: process.Spec{Args: []string{"pwd"}, Dir: bin}, stdout: bin + "\n"},
		"own PATH":              {spec: process.Spec{Args: []string{"greet"}, Env: []string{"PATH=" + bin + ":/usr/bin:/bin"}}, stdout: "hello from " + bin + "/greet\n"},
		"relative PATH": {
			spec:   process.Spec{Args: []string{"greet"}, Dir: bin, Env: []string{"PATH=.:/usr/bin:/bin"}},
			stdout: "hello from " + bin + "/greet\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := g.Exec(t.Context(), test.spec, false)
			must(t, err)
			got := finish(p, strings.NewReader(test.stdin))
			want := result{stdout: []byte(test.stdout), stderr: []byte(test.stderr), exit: test.exit}
			if got.err != nil || got.exit != want.exit || !bytes.Equal(got.stdout, want.stdout) || !bytes.Equal(got.stderr, want.stderr) {
				t.Errorf("got %q, %q, %v, %v", got.stdout, got.stderr, got.exit, got.err)
			}
		})
	}

	refused := map[string]struct {
		spec process.Spec
		why  string
	}{
		"no command":         {process.Spec{}, "no command"},
		"not in PATH":        {process.Spec{Args: []string{"nowhere"}, Env: []string{"PATH=/bin"}}, `"nowhere": no such program in the container's PATH (/bin)`},
		"not executable":     {process.Spec{Args: []string{"data"}, Env: []string{"PATH=" + bin}}, "no such program"},
		"no such file":       {process.Spec{Args: []string{"/nowhere/x"}}, "no such file"},
		"no such directory":  {process.Spec{Args: []string{"sh"}, Dir: "/nowhere"}, "no such file"},
		"too long a command": {process.Spec{Args: []string{"echo", strings.Repeat("x", maxRequest)}}, "is over"},
		"too long a word":    {process.Spec{Args: []string{"echo", strings.Repeat("x", maxPayload*3)}}, "argument list too long"},
	}
	for name, test := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := g.Exec(t.Context(), test.spec, false)
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want %q", err, test.why)
			}
		})
	}
}

func TestExecSignals(t *testing.T) { overBoth(t, testExecSignals) }

func testExecSignals(t *testing.T, g *Guest) {
	tests := map[string]struct {
		script string
		send   process.Signal
		exit   process.Exit
	}{
		"handled":          {`trap "exit 3" TERM; echo ready; while :; do sleep 0.02; done`, process.Terminate, process.Exit{Code: 3}},
		"an interrupt":     {`trap "exit 5" INT; echo ready; while :; do sleep 0.02; done`, process.Interrupt, process.Exit{Code: 5}},
		"not handled":      {`echo ready; sleep 100`, process.Terminate, process.Exit{Code: -1, Signal: "SIGTERM"}},
		"cannot be":        {`trap "" INT TERM; echo ready; while :; do sleep 0.02; done`, process.Kill, process.Exit{Code: -1, Signal: "SIGKILL"}},
		"children as well": {`sleep 100 & trap "wait; exit 4" TERM; echo ready; wait`, process.Terminate, process.Exit{Code: 4}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := g.Exec(t.Context(), sh(test.script), false)
			must(t, err)
			var stderr bytes.Buffer
			read := make(chan struct{})
			go func() { defer close(read); _, _ = io.Copy(&stderr, p.Stderr()) }()
			out := bufio.NewReader(p.Stdout())
			if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
				<-read
				t.Fatalf("got %q, %v, stderr %q", line, err, stderr.Bytes())
			}
			must(t, p.Signal(test.send))
			_, _ = io.Copy(io.Discard, out)
			<-read
			if exit, err := p.Wait(); err != nil || exit != test.exit {
				t.Errorf("got %v, %v", exit, err)
			}
			if err := p.Signal(process.Kill); err != nil {
				t.Errorf("a signal after the end: %v", err)
			}
			if err := p.Signal("SIGNONSENSE"); err == nil {
				t.Error("an unknown signal is sent")
			}
		})
	}
}

// A program that takes no input blocks the stream of its stdio; the signal must
// not wait behind it.
func TestExecKillsProgramWithFullStdin(t *testing.T) { overBoth(t, testExecKillsProgramWithFullStdin) }

func testExecKillsProgramWithFullStdin(t *testing.T, g *Guest) {
	p, err := g.Exec(t.Context(), sh("echo ready; exec sleep 1000"), false)
	must(t, err)
	line, err := bufio.NewReader(io.LimitReader(p.Stdout(), 6)).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	stdin := p.(*remote).link.stream
	must(t, stdin.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := p.Stdin().Write(make([]byte, 4<<20)); err == nil {
		t.Fatal("4 MB fit where nobody reads")
	}
	must(t, p.Signal(process.Kill))
	within(t, 10*time.Second, "end", func() {
		if got := finish(p, strings.NewReader("")); got.exit.Signal != "SIGKILL" || got.err != nil {
			t.Errorf("got %v, %v", got.exit, got.err)
		}
	})
	if _, err := p.Stdin().Write([]byte("x")); err == nil {
		t.Error("stdin of an ended program takes bytes")
	}
}

func TestExecEndsBeforeAChildThatHoldsStdout(t *testing.T) {
	overBoth(t, testExecEndsBeforeAChildThatHoldsStdout)
}

func testExecEndsBeforeAChildThatHoldsStdout(t *testing.T, g *Guest) {
	start := time.Now()
	p, err := g.Exec(t.Context(), sh(`
		trap 'exit 0' USR1
		setsid sh -c "echo \$\$; kill -USR1 $$; exec sleep 1000" &
		wait`), false)
	must(t, err)
	got := finish(p, strings.NewReader(""))
	took := time.Since(start)
	child, err := strconv.Atoi(strings.TrimSpace(string(got.stdout)))
	must(t, err)
	must(t, syscall.Kill(child, syscall.SIGKILL)) // it is there still
	if got.exit != (process.Exit{}) || got.err != nil {
		t.Errorf("got %v, %v", got.exit, got.err)
	}
	if took < outputGrace || took > outputGrace+time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestExecCarries50MBBothWays(t *testing.T) { overBoth(t, testExecCarries50MBBothWays) }

func testExecCarries50MBBothWays(t *testing.T, g *Guest) {
	const size = 50 << 20
	p, err := g.Exec(t.Context(), process.Spec{Args: []string{"cat"}}, false)
	must(t, err)
	sent := sha256.New()
	in := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = io.Copy(p.Stdin(), in)
		_ = p.Stdin().Close()
	})
	all.Go(func() { _, _ = io.Copy(io.Discard, p.Stderr()) })
	received := sha256.New()
	n, err := io.Copy(received, p.Stdout())
	all.Wait()
	if n != size || err != nil || !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if exit, err := p.Wait(); exit.Code != 0 || err != nil {
		t.Errorf("got %v, %v", exit, err)
	}
}

func TestExecManyAtOnce(t *testing.T) { overBoth(t, testExecManyAtOnce) }

func testExecManyAtOnce(t *testing.T, g *Guest) {
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			p, err := g.Exec(t.Context(), sh(fmt.Sprintf("cat; exit %d", i)), false)
			if err != nil {
				t.Error(err)
				return
			}
			got := finish(p, strings.NewReader(strconv.Itoa(i)))
			if string(got.stdout) != strconv.Itoa(i) || got.exit.Code != i || got.err != nil {
				t.Errorf("%d: got %q, %v, %v", i, got.stdout, got.exit, got.err)
			}
		})
	}
	all.Wait()
}

// Outside a container the guest must never signal "everybody": this test, run as
// root, would end the machine it runs on.
func TestExecSoleOutsideAContainer(t *testing.T) { overBoth(t, testExecSoleOutsideAContainer) }

func testExecSoleOutsideAContainer(t *testing.T, g *Guest) {
	p, err := g.Exec(t.Context(), sh("echo done"), true)
	must(t, err)
	if got := finish(p, strings.NewReader("")); string(got.stdout) != "done\n" || got.err != nil {
		t.Errorf("got %q, %v", got.stdout, got.err)
	}
}

// A guest that goes away ends what ran there with an error, never with an exit.
func TestExecWhenTheSessionEnds(t *testing.T) { overBoth(t, testExecWhenTheSessionEnds) }

func testExecWhenTheSessionEnds(t *testing.T, g *Guest) {
	p, err := g.Exec(t.Context(), sh("echo $$; exec sleep 1000"), false)
	must(t, err)
	line, err := bufio.NewReader(io.LimitReader(p.Stdout(), 20)).ReadString('\n')
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }() // process 1 would have taken it along
	must(t, g.Close())
	<-g.Done()
	if got := finish(p, strings.NewReader("")); got.err == nil {
		t.Errorf("got %v without an error", got.exit)
	}
	if err := g.Err(); err != nil {
		t.Errorf("Err after Close: %v", err)
	}
	if _, err := g.Exec(t.Context(), sh("true"), false); err == nil {
		t.Error("a program starts in an ended session")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Exec(ctx, sh("true"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	want, err := describeContainer()
	must(t, err)
	got := g.Hello()
	if got.Interfaces == 0 {
		t.Error("the guest sees no interface")
	}
	got.Interfaces = want.Interfaces // on a host at work they come and go
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want.UID != os.Getuid() || want.Interfaces == 0 {
		t.Errorf("got %+v", want)
	}
}
