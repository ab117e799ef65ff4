package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// outputGrace is how long a program that has ended may be outlived by children
// that hold its output open.
const outputGrace = 2 * time.Second

// program is a running program with our ends of its pipes, and the group that it
// leads. It implements process.Process.
type program struct {
	proc   *os.Process
	stdin  *os.File
	stdout *output
	stderr *output
	ended  chan struct{} // closed when it was collected, and its group has been killed
	exit   process.Exit  // set before ended closes

	mu     sync.Mutex
	reaped bool // its number may be another's; guarded by mu
	lost   bool // the sandbox was closed under it; guarded by mu
}

// launch starts a program in a session, and so a process group, of its own: it
// shares no terminal with us and gets none of the terminal's signals.
func (s *trialSandbox) launch(container string, spec process.Spec) (*program, error) {
	mark := s.mark(container)
	env := lastOfEach(append(withoutProxy(append(without(os.Environ(), s.backend.without), spec.Env...)), markVariable+"="+mark))
	env = lastOfEach(process.WithPath(env, spec.PathFirst))
	path, err := lookPath(spec.Args[0], env, spec.Dir)
	if err != nil {
		return nil, err
	}
	var ends [6]*os.File // the child's and ours of stdin, stdout, stderr
	defer func() {
		for _, f := range []*os.File{ends[0], ends[3], ends[5]} {
			_ = f.Close()
		}
	}()
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return nil, errors.Join(err, closeAll(ends[:i]))
		}
	}
	p := &program{stdin: ends[1], stdout: newOutput(ends[2]), stderr: newOutput(ends[4]), ended: make(chan struct{})}
	p.proc, err = s.backend.launcher.start(path, spec.Args, &os.ProcAttr{
		Dir: spec.Dir, Env: env, Files: []*os.File{ends[0], ends[3], ends[5]}, Sys: ownSession(),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", spec.Args[0], err), closeAll([]*os.File{ends[1], ends[2], ends[4]}))
	}
	forget, err := s.backend.claim.remember(p.proc.Pid)
	go p.see(func(state *os.ProcessState) {
		s.spent(container, state)
		if container == sandbox.Agent {
			killMarked(mark)
		}
		forget()
	})
	if err != nil {
		_ = p.Signal(process.Kill)
		<-p.ended
		p.cut()
		return nil, err
	}
	return p, nil
}

// see lasts as long as the program. What it leaves in its group is killed before
// its number is given back.
func (p *program) see(after func(*os.ProcessState)) {
	state, err := p.collect()
	p.exit = exitOf(state, err)
	after(state)
	_ = p.stdin.Close()
	p.stdout.endWithin(outputGrace)
	p.stderr.endWithin(outputGrace)
	close(p.ended)
}

// collect waits for the program and kills its group: before it gives the number
// back, where the system can wait without that.
func (p *program) collect() (state *os.ProcessState, err error) {
	waited := awaitEnd(p.proc.Pid)
	if !waited {
		state, err = p.proc.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.proc.Pid, syscall.SIGKILL)
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

// Signal implements process.Process: it goes to the group.
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
	return ignoreGone(syscall.Kill(-p.proc.Pid, number))
}

// ignoreGone drops the error of a signal to nobody.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
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

// over says whether nothing is left of the program.
func (p *program) over() bool {
	return isClosed(p.ended) && isClosed(p.stdout.done) && isClosed(p.stderr.done)
}

// lose says that the sandbox is being closed under a program that is not over.
func (p *program) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = !p.over()
}

// cut ends the program's output, read or not.
func (p *program) cut() {
	p.stdout.close()
	p.stderr.close()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// without is an environment without the variables that are named.
func without(env, names []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// withoutProxy has programs reach loopback directly where they have a proxy.
func withoutProxy(env []string) []string {
	for _, key := range []string{"NO_PROXY", "no_proxy"} {
		list := valueOf(env, key)
		if list != "" {
			list += ","
		}
		env = append(env, key+"="+list+"127.0.0.1,localhost")
	}
	return env
}

// lastOfEach keeps the last value of each variable.
func lastOfEach(env []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, kv := range slices.Backward(env) {
		key, _, _ := strings.Cut(kv, "=")
		if !seen[key] {
			seen[key] = true
			kept = append(kept, kv)
		}
	}
	slices.Reverse(kept)
	return kept
}
