package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox/process"
)

// outputGrace is how long the output of a program that has exited is read if its children keep
// it open.
const outputGrace = 2 * time.Second

// programs starts programs for the runner, and has some of them observed.
type programs struct {
	reaper   *reaper
	observer observer
	thread   chan<- func() // forks the programs that are not watched
}

// newPrograms returns an error only if the kernel refuses the filter of programs.
func newPrograms(nested bool) (*programs, error) {
	known, err := abis()
	if err != nil {
		return nil, err
	}
	ps := &programs{reaper: newReaper(), observer: observer{nested: nested}}
	ps.thread, err = newThread(func() error {
		_, err := setFilter(filter{nested: nested}.program(known), 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("filter of programs: %w", err)
	}
	return ps, nil
}

// exec runs a program and forwards its stdio until it has exited.
func (ps *programs) exec(l *link, req request) error {
	p, err := ps.start(req)
	if err != nil {
		return err
	}
	if err := l.writeJSON(kindReply, reply{PID: p.pid}); err != nil {
		p.signal(syscall.SIGKILL)
	}
	var input, outputs sync.WaitGroup
	input.Go(func() { ps.takeInput(p, l) })
	defer input.Wait()
	outputs.Go(func() { splice(p.stdout, &dataWriter{link: l, data: kindData, eof: kindEOF}) })
	outputs.Go(func() { splice(p.stderr, &dataWriter{link: l, data: kindStderr, eof: kindStderrEOF}) })

	status := <-p.ended
	p.signal(syscall.SIGKILL) // remaining processes of its group
	if defence.SoleProgram && req.Sole {
		killAll()
	}
	deadline := time.Now().Add(outputGrace)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	outputs.Wait()
	_ = errors.Join(p.stdin.Close(), p.stdout.Close(), p.stderr.Close())
	return l.writeJSON(kindExit, exitOf(status))
}

func exitOf(status unix.WaitStatus) process.Exit {
	if status.Signaled() {
		return process.Exit{Code: -1, Signal: unix.SignalName(status.Signal())}
	}
	return process.Exit{Code: status.ExitStatus()}
}

// splice copies a program's output to its end.
func splice(from *os.File, to *dataWriter) {
	if _, err := io.CopyBuffer(to, onlyReader{from}, make([]byte, maxPayload/2)); err != nil {
		_, _ = io.Copy(io.Discard, from) // the runner is gone; do not block the program
	}
	_ = to.Close()
}

// program is a child process with our ends of its pipes.
type program struct {
	pid    int
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	ended  <-chan unix.WaitStatus
}

func (ps *programs) start(req request) (*program, error) {
	env := process.WithPath(append(os.Environ(), req.Env...), req.First)
	if len(req.Args) == 0 {
		return nil, errors.New("no command")
	}
	path, err := lookPath(req.Args[0], env, req.Dir)
	if err != nil {
		return nil, err
	}
	pipes, err := process.OpenPipes()
	if err != nil {
		return nil, err
	}
	defer func() { _ = pipes.CloseTheirs() }()
	p := &program{stdin: pipes.Ours[0], stdout: pipes.Ours[1], stderr: pipes.Ours[2]}
	p.pid, p.ended, err = ps.fork(req, path, &syscall.ProcAttr{
		Dir:   req.Dir,
		Env:   process.LastOfEach(env),
		Files: []uintptr{pipes.Theirs[0].Fd(), pipes.Theirs[1].Fd(), pipes.Theirs[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = pipes.CloseOurs()
		return nil, fmt.Errorf("%s: %w", req.Args[0], err)
	}
	p.preferOOM()
	return p, nil
}

// fork starts a program. It is watched if that is requested and possible.
func (ps *programs) fork(req request, path string, attr *syscall.ProcAttr) (int, <-chan unix.WaitStatus, error) {
	if req.Watch {
		if w := ps.observer.begin(req.Dirs); w != nil {
			return w.start(ps.reaper, path, req.Args, attr)
		}
	}
	var pid int
	var ended <-chan unix.WaitStatus
	var err error
	done := make(chan struct{})
	ps.thread <- func() {
		defer close(done)
		pid, ended, err = ps.reaper.start(func() (int, error) { return syscall.ForkExec(path, req.Args, attr) })
	}
	<-done
	return pid, ended, err
}

// preferOOM makes the kernel prefer killing the program over process 1 when the container runs
// out of memory, so that its exit can be reported. The program can revert this.
func (p *program) preferOOM() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.pid), []byte("1000"), 0)
}

// signal sends a signal to the program's process group.
func (p *program) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid, s) }

// signal is a separate request, so that a program that does not read its stdin can be killed.
func (ps *programs) signal(l *link, req request) error {
	signal := unix.SignalNum(string(req.Signal))
	if signal == 0 {
		return fmt.Errorf("unknown signal %q", req.Signal)
	}
	ps.reaper.signal(req.PID, signal)
	return l.writeJSON(kindReply, reply{})
}

// takeInput forwards stdin. The end of the stream means that the runner does not wait for the
// program any more, which is then killed.
func (ps *programs) takeInput(p *program, l *link) {
	for {
		k, data, err := l.message()
		switch {
		case err != nil:
			ps.reaper.signal(p.pid, syscall.SIGKILL)
			l.stopWriting()
			return
		case k == kindData:
			_, _ = p.stdin.Write(data)
		case k == kindEOF:
			_ = p.stdin.Close()
		}
	}
}

// lookPath finds a program like execvp(3), with the PATH and working directory of the program.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path, search := process.Find(name, env, dir)
	if path == "" {
		return "", fmt.Errorf("%q: no such program in the container's PATH (%s)", name, search)
	}
	return path, nil
}
