package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// outputGrace is how long the output of a program that has exited is read if its children
	// keep it open.
	outputGrace = 2 * time.Second
	// maxTail is how many bytes of an output are read after that; it is more than a pipe
	// contains.
	maxTail = 1 << 20
	// markVariable is the environment variable by which processes that left their process group
	// are found, on systems that show it.
	markVariable = "WAZA_SANDBOX"
)

// program is a running program, the leader of its process group. It implements process.Process.
type program struct {
	proc   *os.Process
	group  group
	stdin  *os.File
	stdout *output
	stderr *output
	ended  chan struct{} // closed when it was reaped and its group was killed
	exit   process.Exit  // valid after ended is closed

	mu     sync.Mutex
	reaped bool // its pid may have been reused; guarded by mu
	lost   bool // the sandbox was closed while it was running; guarded by mu
}

// launch starts a program in its own session and process group, so that it gets no signals of
// our terminal. It calls ended when the program has exited, before anything else observes that.
func (b *Backend) launch(spec process.Spec, mark string, ended func(*os.ProcessState)) (*program, error) {
	env := append(withoutProxy(slices.Concat(b.env, spec.Env)), markVariable+"="+mark)
	env = process.LastOfEach(process.WithPath(env, spec.PathFirst))
	path, err := lookPath(spec.Args[0], env, spec.Dir)
	if err != nil {
		return nil, err
	}
	pipes, err := process.OpenPipes()
	if err != nil {
		return nil, err
	}
	defer func() { _ = pipes.CloseTheirs() }()
	p := &program{stdin: pipes.Ours[0], stdout: newOutput(pipes.Ours[1]), stderr: newOutput(pipes.Ours[2]), ended: make(chan struct{})}
	p.proc, err = b.launcher.start(path, spec.Args, &os.ProcAttr{
		Dir: spec.Dir, Env: env, Files: pipes.Theirs[:], Sys: ownSession(),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", spec.Args[0], err), pipes.CloseOurs())
	}
	p.group = groupOf(p.proc)
	go p.waitExit(ended)
	return p, nil
}

// waitExit waits for the program's exit. The rest of its group is killed before its pid is released.
func (p *program) waitExit(after func(*os.ProcessState)) {
	state, err := p.collect()
	p.exit = exitOf(state, err)
	after(state)
	_ = p.stdin.Close()
	p.stdout.endWithin(outputGrace)
	p.stderr.endWithin(outputGrace)
	close(p.ended)
}

// collect reaps the program and kills its group. If the system can wait without reaping, the
// group is killed first.
func (p *program) collect() (state *os.ProcessState, err error) {
	waited := awaitEnd(p.proc.Pid)
	if !waited {
		state, err = p.proc.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group.end()
	if waited {
		state, err = p.proc.Wait()
	}
	p.reaped = true
	return state, err
}

func exitOf(state *os.ProcessState, err error) process.Exit {
	if err != nil {
		return process.Exit{Code: -1, Signal: "unknown: " + err.Error()}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return process.Exit{Code: -1, Signal: signalName(status.Signal())}
	}
	return process.Exit{Code: state.ExitCode()}
}

func (p *program) Stdin() io.WriteCloser { return p.stdin }
func (p *program) Stdout() io.Reader     { return p.stdout }
func (p *program) Stderr() io.Reader     { return p.stderr }

// Signal implements process.Process. It signals the process group.
func (p *program) Signal(signal process.Signal) error {
	number, ok := map[process.Signal]syscall.Signal{
		process.Interrupt: syscall.SIGINT, process.Terminate: syscall.SIGTERM, process.Kill: syscall.SIGKILL,
	}[signal]
	if !ok {
		return fmt.Errorf("unknown signal %q", signal)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	return p.group.signal(number)
}

// Wait implements process.Process.
func (p *program) Wait() (process.Exit, error) {
	<-p.ended
	<-p.stdout.done
	<-p.stderr.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return p.exit, errClosed
	}
	return p.exit, nil
}

// over reports whether the program and its output have ended.
func (p *program) over() bool {
	return process.IsClosed(p.ended) && process.IsClosed(p.stdout.done) && process.IsClosed(p.stderr.done)
}

// markLost records that the sandbox is closed while the program is running.
func (p *program) markLost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = !p.over()
}

// cut closes the program's outputs, whether read or not.
func (p *program) cut() {
	p.stdout.close()
	p.stderr.close()
}

// without returns an environment without the named variables.
func without(env, names []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// withoutProxy excludes loopback from proxies in the environment.
func withoutProxy(env []string) []string {
	for _, key := range []string{"NO_PROXY", "no_proxy"} {
		list, _ := process.LookupEnv(env, key)
		if list != "" {
			list += ","
		}
		env = append(env, key+"="+list+"127.0.0.1,localhost")
	}
	return env
}

// isMarked reports whether an environment, as in /proc, contains mark. If mark ends in a
// separator, it is a prefix.
func isMarked(environ, mark string) bool {
	for variable := range strings.SplitSeq(environ, "\x00") {
		value, ok := strings.CutPrefix(variable, markVariable+"=")
		if !ok {
			continue
		}
		open := strings.HasSuffix(mark, ":") || strings.HasSuffix(mark, "/")
		if value == mark || open && strings.HasPrefix(value, mark) {
			return true
		}
	}
	return false
}

// isPath reports whether a command is a path and not looked up in PATH.
func isPath(command string) bool { return strings.ContainsAny(command, "/"+string(filepath.Separator)) }

// lookPath finds a program like execvp(3), with the PATH and working directory of the program.
func lookPath(name string, env []string, dir string) (string, error) {
	if isPath(name) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if !process.IsExecutable(path) {
			return "", fmt.Errorf("%s is not an executable file", path)
		}
		return path, nil
	}
	path, search := process.Find(name, env, dir)
	if path == "" {
		return "", fmt.Errorf("%q: no such program in PATH (%s); install it, or give its path", name, search)
	}
	return path, nil
}

// output is our end of a program's stdout or stderr. It has a single reader.
type output struct {
	file *os.File
	tail int // bytes that are still read after the deadline
	once sync.Once
	done chan struct{} // closed at its end
}

func newOutput(file *os.File) *output {
	return &output{file: file, tail: maxTail, done: make(chan struct{})}
}

// Read returns io.EOF at the end, regardless of the cause.
func (o *output) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(p)
	}
	if err != nil {
		o.close()
		return n, io.EOF
	}
	return n, nil
}

// rest reads the remaining data from the pipe after the deadline, without waiting.
func (o *output) rest(p []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := o.file.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	p = p[:min(len(p), o.tail)]
	readErr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = read(fd, p); err != syscall.EINTR {
				return true
			}
		}
	})
	if readErr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	o.tail -= n
	return n, o.file.SetReadDeadline(time.Unix(1, 0))
}

// endWithin ends the output after d, even if a process keeps it open.
func (o *output) endWithin(d time.Duration) { _ = o.file.SetReadDeadline(time.Now().Add(d)) }

// close ends the output immediately.
func (o *output) close() {
	o.once.Do(func() {
		_ = o.file.Close()
		close(o.done)
	})
}

// launcher starts programs from a single OS thread that lives as long as the run, because
// PR_SET_PDEATHSIG (prctl(2)) kills a child when the thread that created it exits.
type launcher struct {
	work  chan func()
	ended sync.WaitGroup
}

func newLauncher() *launcher {
	l := &launcher{work: make(chan func())}
	l.ended.Go(func() {
		runtime.LockOSThread()
		for start := range l.work {
			start()
		}
		runtime.UnlockOSThread()
	})
	return l
}

func (l *launcher) start(path string, args []string, attr *os.ProcAttr) (p *os.Process, err error) {
	done := make(chan struct{})
	l.work <- func() {
		defer close(done)
		p, err = os.StartProcess(path, args, attr)
	}
	<-done
	return p, err
}

// close waits for the thread. Nothing must be started afterwards.
func (l *launcher) close() {
	close(l.work)
	l.ended.Wait()
}
