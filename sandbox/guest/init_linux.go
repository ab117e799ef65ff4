package guest

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper collects every child that ends, which process 1 must do for strangers'
// orphans too. os/exec would race it for our own children's status; start is how
// they are started instead.
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

// start forks under the lock, so that a child that ends at once is known by the
// time it is reaped.
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

// signal goes to the group of a program that start started. Once that is reaped,
// its number may be another's, and nothing is sent.
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

// takeInSignals leaves no signal with its default effect but those that the kernel
// keeps from process 1.
//
// Signals that process 1 has a handler for reach it from inside its container too,
// and Go's end the process. Taken in, they do nothing, and programs we start have
// their defaults. There are three that Go leaves to C libraries, without a handler.
// The kernel drops such for process 1, but not while its first thread blocks
// signals, as Go's does when it makes another: it then ends the process. They are
// ignored; a C library that wants them sets its own handler.
func takeInSignals() error {
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
