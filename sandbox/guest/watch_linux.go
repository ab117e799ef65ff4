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

// watcher starts programs, and is told by the kernel what they and their children start
// and where they connect to, before that goes on. It lets everything go on: it sees, and
// refuses nothing.
//
// The programs are children of a thread that has a filter, from which they have theirs
// before they run. Nothing of theirs keeps the kernel from telling: nobody but process 1
// has what it tells by, and without process 1 there is no container.
type watcher struct {
	abis     []abi
	ledger   *observe.Ledger
	reported int         // what the kernel tells
	thread   chan func() // done on the thread with the filter

	mu     sync.Mutex
	starts map[int]start // children that are still us, by number; guarded by mu
}

// start is a program that a child is to become.
type start struct {
	path string
	args []string
}

// newWatcher fails where the kernel, or what stands in for it, cannot tell.
func newWatcher(ledger *observe.Ledger) (*watcher, error) {
	known, err := abis()
	if err != nil {
		return nil, err
	}
	w := &watcher{abis: known, ledger: ledger, thread: make(chan func()), starts: map[int]start{}}
	ready := make(chan error)
	go w.keepThread(ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	go w.listen()
	return w, nil
}

// keepThread is a thread of its own: the runtime makes no other out of one that is
// locked.
func (w *watcher) keepThread(ready chan<- error) {
	runtime.LockOSThread()
	var err error
	w.reported, err = addFilter(notifyFilter(w.abis))
	ready <- err
	if err != nil {
		return
	}
	for do := range w.thread {
		do()
	}
}

// addFilter puts the calling thread, and all that come of it, under a filter, and
// returns where the kernel tells of calls.
//
// Calls can go on after they were told of since Linux 5.5. The second flag, which is
// without meaning here, is 5.7's. Without the third, 5.19's, a signal that comes while
// we look has a program's call begin anew, and we see it twice.
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

// start is [syscall.ForkExec] with the program being watched. The child is the reaper's.
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

// fork has the thread with the filter fork. What becomes of the child is known before
// the kernel can tell that it starts a program.
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

// takeStart is what a child of ours is to become that has not begun to.
func (w *watcher) takeStart(pid int) (start, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.starts[pid]
	delete(w.starts, pid)
	return s, ok
}

// notification is struct seccomp_notif, and answer struct seccomp_notif_resp.
type notification struct {
	id     uint64
	pid    uint32
	_      uint32
	number uint32
	arch   uint32
	_      uint64 // of the instruction
	args   [6]uint64
}

type answer struct {
	id    uint64
	_     int64
	_     int32
	flags uint32
}

// listen looks at each call and lets it go on, for as long as the container stands.
func (w *watcher) listen() {
	var err error
	for err == nil {
		err = w.one()
	}
	// What is told without anybody to read it would stand still for ever; once nobody
	// can, the kernel refuses it.
	for _, list := range []string{observe.Programs, observe.Connections} {
		w.ledger.Lack(list, "watching broke off: "+err.Error())
	}
	_ = unix.Close(w.reported)
}

func (w *watcher) one() error {
	var n notification
	switch err := control(w.reported, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR): // its program has ended
		return nil
	case err != nil:
		return err
	}
	w.see(n)
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
