package sandboxtest

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// spec returns the spec of the suite's program.
func (s *suite) program(sb sandbox.Sandbox, container string, args ...string) process.Spec {
	return process.Spec{Args: append([]string{sb.Layout(container).Guest}, args...)}
}

// running is a program whose output is being read.
type running struct {
	process.Process
	first  chan string // first line of stdout
	stdout bytes.Buffer
	stderr bytes.Buffer
	read   sync.WaitGroup
}

// ended is the result of a program.
type ended struct {
	stdout, stderr string
	exit           process.Exit
	err            error
}

func (s *suite) start(t *testing.T, sb sandbox.Sandbox, container string, args ...string) *running {
	t.Helper()
	return attend(t, sb, container, s.program(sb, container, args...))
}

func attend(t *testing.T, sb sandbox.Sandbox, container string, spec process.Spec) *running {
	t.Helper()
	p, err := sb.Start(within(t), container, spec)
	if err != nil {
		t.Fatalf("%q: %v", spec.Args, err)
	}
	r := &running{Process: p, first: make(chan string, 1)}
	r.read.Go(func() {
		in := bufio.NewReader(io.TeeReader(p.Stdout(), &r.stdout))
		line, _ := in.ReadString('\n')
		r.first <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, in)
	})
	r.read.Go(func() { _, _ = io.Copy(&r.stderr, p.Stderr()) })
	return r
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	select {
	case line := <-r.first:
		return line
	case <-time.After(limit):
		t.Fatal("the program says nothing")
		return ""
	}
}

func (r *running) awaitLine(t *testing.T, want string) {
	t.Helper()
	if got := r.line(t); got != want {
		t.Fatalf("the program says %q, want %q: %s", got, want, r.stderr.String())
	}
}

// wait waits for the program's exit.
func (r *running) wait(t *testing.T) ended {
	t.Helper()
	done := make(chan ended, 1)
	go func() {
		exit, err := r.Wait()
		r.read.Wait()
		done <- ended{r.stdout.String(), r.stderr.String(), exit, err}
	}()
	select {
	case e := <-done:
		return e
	case <-time.After(limit):
		t.Fatal("the program does not end")
		return ended{}
	}
}

func (s *suite) run(t *testing.T, sb sandbox.Sandbox, container string, args ...string) ended {
	t.Helper()
	r := s.start(t, sb, container, args...)
	_ = r.Stdin().Close()
	return r.wait(t)
}

// say runs a program that must succeed, and returns its output.
func (s *suite) say(t *testing.T, sb sandbox.Sandbox, container string, args ...string) string {
	t.Helper()
	e := s.run(t, sb, container, args...)
	if e.err != nil || e.exit != (process.Exit{}) {
		t.Fatalf("%q: %+v, %v: %s", args, e.exit, e.err, e.stderr)
	}
	return e.stdout
}

func (s *suite) ends(t *testing.T, sb sandbox.Sandbox) {
	for _, container := range []string{sandbox.Agent, "one"} {
		for arg, want := range map[string]int{"0": 0, "7": 7, "255": 255} {
			if e := s.run(t, sb, container, "exit", arg); e.err != nil || e.exit != (process.Exit{Code: want}) {
				t.Errorf("%s: exit %s came as %+v, %v", container, arg, e.exit, e.err)
			}
		}
	}
}

func (s *suite) signals(t *testing.T, sb sandbox.Sandbox) {
	for _, signal := range []process.Signal{process.Interrupt, process.Terminate, process.Kill} {
		r := s.start(t, sb, "one", "wait")
		r.awaitLine(t, "ready")
		if err := r.Signal(signal); err != nil {
			t.Fatal(err)
		}
		e := r.wait(t)
		ours := e.exit == process.Exit{Code: -1, Signal: string(signal)}
		theirs := signal == process.Interrupt && e.exit.Code == 2 // the exit code of Go's default handler
		if e.err != nil || !ours && !theirs {
			t.Errorf("%s: %+v, %v", signal, e.exit, e.err)
		}
	}
	deaf := s.start(t, sb, "one", "deaf")
	deaf.awaitLine(t, "ready")
	for _, signal := range []process.Signal{process.Interrupt, process.Terminate, process.Kill} {
		if err := deaf.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	if e := deaf.wait(t); e.exit.Signal != string(process.Kill) {
		t.Errorf("a program that ignores others ended with %+v", e.exit)
	}
	for _, signal := range []process.Signal{process.Terminate, process.Kill} {
		_ = deaf.Signal(signal) // has no effect on other processes
	}
	if err := deaf.Signal("SIGNONSENSE"); err == nil {
		t.Error("a signal that there is not was sent")
	}
}

func (s *suite) streams(t *testing.T, sb sandbox.Sandbox) {
	e := s.run(t, sb, "one", "say", "out", "err")
	if e.stdout != "out" || e.stderr != "err" {
		t.Errorf("stdout %q, stderr %q", e.stdout, e.stderr)
	}
	r := s.start(t, sb, "one", "cat")
	text := strings.Repeat("line of text\n", 200_000)
	if _, err := io.WriteString(r.Stdin(), text); err != nil {
		t.Fatal(err)
	}
	if err := r.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if e := r.wait(t); e.stdout != text || e.exit != (process.Exit{}) {
		t.Errorf("%d of %d bytes came back, %+v", len(e.stdout), len(text), e.exit)
	}
}

func (s *suite) bigOutput(t *testing.T, sb sandbox.Sandbox) {
	const size = 32 << 20
	p, err := sb.Start(within(t), "one", s.program(sb, "one", "flood", "33554432"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	if n, err := io.Copy(io.Discard, p.Stdout()); n != size || err != nil {
		t.Errorf("%d of %d bytes came, %v", n, size, err)
	}
	if exit, err := p.Wait(); err != nil || exit != (process.Exit{}) {
		t.Errorf("%+v, %v", exit, err)
	}
}

// slowReader checks that output before a program's exit is complete even if it is read late.
func (s *suite) slowReader(t *testing.T, sb sandbox.Sandbox) {
	p, err := sb.Start(within(t), "one", s.program(sb, "one", "flood", "40000"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	time.Sleep(3 * time.Second) // longer than outputGrace
	if n, _ := io.Copy(io.Discard, p.Stdout()); n != 40000 {
		t.Errorf("%d of 40000 bytes came", n)
	}
	if exit, err := p.Wait(); err != nil || exit != (process.Exit{}) {
		t.Errorf("%+v, %v", exit, err)
	}
}

func (s *suite) environment(t *testing.T, sb sandbox.Sandbox) {
	spec := s.program(sb, "one", "env", "TOKEN")
	spec.Env = []string{"TOKEN=first", "TOKEN=the=second"}
	r := attend(t, sb, "one", spec)
	if e := r.wait(t); e.stdout != "the=second" {
		t.Errorf("a variable that is given is %q", e.stdout)
	}
	workspace := sb.Layout(sandbox.Agent).Workspace
	spec = s.program(sb, sandbox.Agent, "dir")
	spec.Dir = workspace
	if e := attend(t, sb, sandbox.Agent, spec).wait(t); e.stdout != workspace {
		t.Errorf("a program that is to start in %s starts in %q", workspace, e.stdout)
	}
}

func (s *suite) cannotRun(t *testing.T, sb sandbox.Sandbox) {
	guest := sb.Layout("one").Guest
	for name, spec := range map[string]process.Spec{
		"a program that is not in PATH": {Args: []string{"waza-no-such-program"}},
		"a path with nothing there":     {Args: []string{"/nonexistent/program"}},
		"a directory":                   {Args: []string{"/proc"}},
		"no such working directory":     {Args: []string{guest, "exit", "0"}, Dir: "/nonexistent"},
	} {
		p, err := sb.Start(within(t), "one", spec)
		if err == nil {
			_ = p.Signal(process.Kill)
			t.Errorf("%s: was started", name)
		}
	}
	s.say(t, sb, "one", "exit", "0")
}

// children checks that a child which keeps the output open does not delay the program's end,
// and is killed. The agent's children are killed even if they have left the process group.
func (s *suite) children(t *testing.T, sb sandbox.Sandbox) {
	for _, test := range []struct{ container, act string }{
		{"one", "child"}, {sandbox.Agent, "child"}, {sandbox.Agent, "stray"},
	} {
		token := t.Name() + test.container + test.act
		began := time.Now()
		e := s.run(t, sb, test.container, test.act, token)
		if e.err != nil || e.exit != (process.Exit{}) || time.Since(began) > limit/2 {
			t.Errorf("%+v: %+v, %v, after %s", test, e.exit, e.err, time.Since(began))
		}
		dockertest.Await(t, limit/2, "the child is gone", func() bool {
			return s.say(t, sb, test.container, "count", token) == "0"
		})
	}
}

func (s *suite) layout(t *testing.T) {
	spec := s.spec(t)
	sb := s.standWith(t, spec)
	l := sb.Layout(sandbox.Agent)
	for planned, actual := range map[string]string{
		sandbox.WorkspaceDir: l.Workspace, sandbox.MCPConfigPath: l.MCPConfig, sandbox.GuestPath: l.Guest,
		sandbox.WorkspaceDir + "/a/b": l.Workspace + "/a/b", "/elsewhere": "/elsewhere",
	} {
		if got := l.At(planned); got != actual {
			t.Errorf("%s is at %s, want %s", planned, got, actual)
		}
	}
	if got := s.say(t, sb, sandbox.Agent, "read", l.MCPConfig); got != spec.Containers[0].MCPConfig {
		t.Errorf("mcp.json is\n%s", cmp.Diff(spec.Containers[0].MCPConfig, got))
	}
	put(t, sb, "/", treetest.Entry{Name: sandbox.HomeDir[1:] + "/private/file", Content: "mine"})
	if got := s.say(t, sb, sandbox.Agent, "read", l.At(sandbox.HomeDir+"/private/file")); got != "mine" {
		t.Errorf("what was put beside the workspace is %q", got)
	}
}
