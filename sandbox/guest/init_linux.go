package guest

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/defence"
)

// reaper reaps all child processes, including orphans of other programs, as process 1 must.
// os/exec would compete for the exit status of our children, so they are started with start.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan<- unix.WaitStatus // guarded by mu
}

func newReaper() *reaper {
	r := &reaper{children: make(map[int]chan<- unix.WaitStatus)}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			r.reap()
		}
	}()
	return r
}

// start calls fork with the lock held, so that a child is registered before it can be reaped.
func (r *reaper) start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan unix.WaitStatus, 1)
	r.children[pid] = ended
	return pid, ended, nil
}

// signal sends a signal to the process group of a program started with start. If it was reaped,
// nothing is sent, since its pid may have been reused.
func (r *reaper) signal(pid int, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.children[pid]; ok {
		_ = syscall.Kill(-pid, s)
	}
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || pid <= 0:
			return
		}
		if ended, ok := r.children[pid]; ok {
			ended <- status
			delete(r.children, pid)
		}
	}
}

// limitCores limits core dumps to one byte; the filter of programs keeps them from changing the
// limit. With this limit the kernel writes no core dump, and starts no program of the machine to
// receive one. A limit of 0 would not suffice: the kernel ignores it if core_pattern is a pipe
// (core(5)).
func limitCores() {
	if defence.NoCoreDumps {
		// This fails if the limit is already 0, which cannot be raised; the certificate tells whether
		// that matters.
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: coreLimit, Max: coreLimit})
	}
}

const coreLimit = 1

// ignoreSignals removes the default effect of all signals, except those that the kernel blocks
// for process 1.
//
// Programs in the container can send process 1 the signals that it handles, and Go's handlers
// exit. With Notify they have no effect, and child processes still get the defaults. Go leaves
// three signals to C libraries, without a handler. The kernel usually drops such signals for
// process 1, but not while its first thread has signals blocked, as in Go when it creates a
// thread. So they are ignored; C libraries that use them install their own handlers.
func ignoreSignals() error {
	signal.Notify(make(chan os.Signal, 1))
	for number := uintptr(32); number <= 34; number++ {
		ignore := struct{ handler, flags, restorer, mask uint64 }{handler: 1} // SIG_IGN
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&ignore)), 0, unsafe.Sizeof(ignore.mask), 0, 0)
		if errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", number, errno)
		}
	}
	return nil
}
