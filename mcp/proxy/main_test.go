package proxy_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Headers, methods and versions of MCP that tests use.
const (
	headerMethod     = "Mcp-Method"
	headerName       = "Mcp-Name"
	headerSession    = "Mcp-Session-Id"
	headerVersion    = "MCP-Protocol-Version"
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	methodCallTool   = "tools/call"
	methodInitialize = "initialize"
	methodListTools  = "tools/list"
	statelessVersion = "2026-07-28"
)

// parse reads the messages that the servers of these tests get in a line or a body.
func parse(raw []byte) ([]jsonrpc.Message, error) {
	messages, _, err := jsonrpc.Parse(raw)
	return messages, err
}

// asks reports whether one of the messages is a request.
func asks(messages []jsonrpc.Message) bool {
	return slices.ContainsFunc(messages, jsonrpc.Message.IsRequest)
}

// name returns the name that the parameters of a message have.
func name(m jsonrpc.Message) string { return jsontext.Text(jsontext.Member(m.Params, "name")) }

// serverEnv makes the test binary one of the servers below.
const serverEnv = "MCPPROXY_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) == "" {
		memtest.Main(map[string]memtest.Role{victimRole: victim})
	}
	switch os.Getenv(serverEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "scripted", "ignoring":
		scriptedServer(os.Stdin, os.Stdout, os.Stderr)
	case "asking":
		askingServer()
	case "mcpgo":
		mcpgoServer()
	case "hostile":
		hostileServer(os.Stdin, os.Stdout, os.Stderr)
	case "deaf":
		hang()
	case "broken":
		os.Stderr.WriteString("cannot open database\n")
		os.Exit(7)
	case "stateless":
		statelessServer(os.Stdin, os.Stdout)
	}
}

// osProcess is a process.Process over os/exec. It has pipes of its own, because
// Wait of os/exec closes the ones it made while they are read.
type osProcess struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
}

func (p *osProcess) Stdin() io.WriteCloser { return p.stdin }
func (p *osProcess) Stdout() io.Reader     { return p.stdout }
func (p *osProcess) Stderr() io.Reader     { return p.stderr }

func (p *osProcess) Signal(s process.Signal) error {
	number := map[process.Signal]syscall.Signal{
		process.Interrupt: syscall.SIGINT, process.Terminate: syscall.SIGTERM, process.Kill: syscall.SIGKILL,
	}[s]
	return syscall.Kill(-p.cmd.Process.Pid, number)
}

func (p *osProcess) Wait() (process.Exit, error) {
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return process.Exit{}, err
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return process.Exit{Code: -1, Signal: signalName(status.Signal())}, nil
	}
	return process.Exit{Code: status.ExitStatus()}, nil
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGKILL:
		return "SIGKILL"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return s.String()
}

// launching returns a launcher of the test binary as one of its servers.
func launching(t testing.TB, server string) transport.Launcher {
	return launchCommand(t, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverEnv+"="+server, "GORACE=atexit_sleep_ms=0")
		return cmd
	})
}

func launchCommand(t testing.TB, command func() *exec.Cmd) transport.Launcher {
	return func(context.Context) (process.Process, error) {
		cmd := command()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var ours, theirs [3]*os.File
		for i := range 3 {
			r, w, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			ours[i], theirs[i] = r, w
			if i == 0 {
				ours[i], theirs[i] = w, r
			}
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
		err := cmd.Start()
		for _, f := range theirs {
			f.Close()
		}
		t.Cleanup(func() {
			for _, f := range ours {
				f.Close()
			}
		})
		if err != nil {
			return nil, err
		}
		return &osProcess{cmd: cmd, stdin: ours[0], stdout: ours[1], stderr: ours[2]}, nil
	}
}

// owned returns a server as the runner reaches it through a proxy.
func owned(t testing.TB, rec proxy.Recorder, s transport.Server) transport.Server {
	p := proxy.New(rec, proxy.Limits{}, proxy.Server{Server: s})
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p.Own(s.Name)
}

// memoryRecorder is a Recorder that tests can look into.
type memoryRecorder struct {
	also proxy.Recorder            // gets all frames too; may be nil
	full func(evidence.Frame) bool // says that there is no room for a frame; may be nil

	mu     sync.Mutex
	frames []evidence.Frame
	events []evidence.Event
	change chan struct{}
}

func newRecorder() *memoryRecorder { return &memoryRecorder{change: make(chan struct{})} }

func (r *memoryRecorder) Frame(f evidence.Frame) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.also != nil {
		r.also.Frame(f)
	}
	if r.full != nil && r.full(f) {
		return 0
	}
	f.Seq = int64(len(r.frames) + 1)
	f.Raw = slices.Clone(f.Raw)
	r.frames = append(r.frames, f)
	r.changed()
	return f.Seq
}

func (r *memoryRecorder) Event(e evidence.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.changed()
}

func (r *memoryRecorder) changed() {
	close(r.change)
	r.change = make(chan struct{})
}

// wait waits until cond is true for the recorded frames and events.
func (r *memoryRecorder) wait(t testing.TB, what string, cond func([]evidence.Frame, []evidence.Event) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		ok, change := cond(r.frames, r.events), r.change
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("never recorded: %s", what)
		}
	}
}

func (r *memoryRecorder) event(t testing.TB, kind string) evidence.Event {
	t.Helper()
	var found evidence.Event
	r.wait(t, "event "+kind, func(_ []evidence.Frame, events []evidence.Event) bool {
		i := slices.IndexFunc(events, func(e evidence.Event) bool { return e.Kind == kind })
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	return found
}

func (r *memoryRecorder) all() []evidence.Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames)
}

func (r *memoryRecorder) sequence() iter.Seq2[evidence.Frame, error] {
	return func(yield func(evidence.Frame, error) bool) {
		for _, f := range r.all() {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// hang does not return. The runtime would end a program without C, all of whose goroutines block in select, as deadlocked.
func hang() { time.Sleep(24 * time.Hour) }
