package guest

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

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
