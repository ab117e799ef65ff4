package guest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// watcher starts programs, and gets notifications from the kernel when they or their children
// start programs or connect, before that happens. It always lets the call continue.
//
// The programs are forked by a thread with a seccomp filter, which they inherit. They cannot
// suppress the notifications: only process 1 has the descriptor, and without process 1 the
// container ends.
type watcher struct {
	abis     []abi
	ledger   *observe.Ledger
	reported int           // descriptor for notifications
	thread   chan<- func() // functions to run on the thread with the filter

	mu     sync.Mutex
	starts map[int]start // forked children that have not called exec yet, by pid; guarded by mu
}

// start is the program that a child is going to execute.
type start struct {
	path string
	args []string
}

// newWatcher returns an error if the kernel, or its substitute, does not support notifications.
func newWatcher(ledger *observe.Ledger, nested bool) (*watcher, error) {
	known, err := abis()
	if err != nil {
		return nil, err
	}
	w := &watcher{abis: known, ledger: ledger, starts: map[int]start{}}
	w.thread, err = newThread(func() (err error) {
		w.reported, err = addFilter(filter{watched: true, nested: nested}.program(known))
		return err
	})
	if err != nil {
		return nil, err
	}
	go w.listen()
	return w, nil
}

// newThread runs functions on a dedicated thread, whose filters the programs that it forks inherit.
// The runtime never clones a locked thread.
func newThread(addFilters func() error) (chan<- func(), error) {
	thread, ready := make(chan func()), make(chan error)
	go func() {
		runtime.LockOSThread()
		err := addFilters()
		ready <- err
		if err != nil {
			return
		}
		for do := range thread {
			do()
		}
	}()
	return thread, <-ready
}

// addFilter installs a filter for the calling thread and its descendants, and returns the
// descriptor for notifications.
//
// Letting calls continue requires Linux 5.5. The second flag requires 5.7 and has no effect
// here. Without the third, from 5.19, a signal during our check restarts the call, which is
// then reported twice.
func addFilter(filter []unix.SockFilter) (int, error) {
	const needed = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	fd, err := setFilter(filter, needed|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) {
		fd, err = setFilter(filter, needed)
	}
	if err != nil {
		return 0, fmt.Errorf("the kernel does not tell what programs call (seccomp: %w)", err)
	}
	return fd, nil
}

func setFilter(filter []unix.SockFilter, flags uintptr) (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// start is like [syscall.ForkExec] for a watched program. The child is registered with the
// reaper.
func (w *watcher) start(r *reaper, path string, args []string, attr *syscall.ProcAttr) (int, <-chan unix.WaitStatus, error) {
	ours, childs, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = ours.Close() }()
	i, err := newImage(path, args, attr, childs)
	if err != nil {
		return 0, nil, errors.Join(err, childs.Close())
	}
	pid, ended, err := w.fork(r, i, start{inDirectory(attr.Dir, path), args})
	if err = errors.Join(err, childs.Close()); err != nil {
		return 0, nil, err
	}
	defer w.takeStart(pid)
	return pid, ended, became(ours)
}

// fork forks on the thread with the filter. The child's program is registered before the kernel
// can report that it is started.
func (w *watcher) fork(r *reaper, i image, becomes start) (pid int, ended <-chan unix.WaitStatus, err error) {
	done := make(chan struct{})
	w.thread <- func() {
		defer close(done)
		w.mu.Lock()
		defer w.mu.Unlock()
		if pid, ended, err = r.start(i.fork); err == nil {
			w.starts[pid] = becomes
		}
	}
	<-done
	return pid, ended, err
}

// takeStart returns and removes the program of a forked child that has not called exec yet.
func (w *watcher) takeStart(pid int) (start, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.starts[pid]
	delete(w.starts, pid)
	return s, ok
}

// notification is struct seccomp_notif, and answer is struct seccomp_notif_resp.
type notification struct {
	id     uint64
	pid    uint32
	_      uint32
	number uint32
	arch   uint32
	_      uint64 // instruction pointer
	args   [6]uint64
}

type answer struct {
	id    uint64
	_     int64
	_     int32
	flags uint32
}

// listen handles notifications and lets every call continue.
func (w *watcher) listen() {
	var err error
	for err == nil {
		err = w.one()
	}
	// Unread notifications would block programs forever. After the descriptor is closed, the
	// kernel fails the calls.
	for _, list := range []string{observe.Programs, observe.Connections} {
		w.ledger.Lack(list, "watching broke off: "+err.Error())
	}
	_ = unix.Close(w.reported)
}

func (w *watcher) one() error {
	var n notification
	switch err := control(w.reported, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR): // the program has ended
		return nil
	case err != nil:
		return err
	}
	w.record(n)
	goOn := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if err := control(w.reported, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&goOn)); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func control(fd int, what uintptr, with unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), what, uintptr(with)); errno != 0 {
		return errno
	}
	return nil
}
