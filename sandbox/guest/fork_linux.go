package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// The runtime's part of a fork: no signal comes to the child before it has lost our
// handlers. The runtime keeps these for such as us (go.dev/issue/67401).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// image is what a child becomes, in the kernel's shape: made before the fork, after
// which the child can make nothing.
type image struct {
	path, dir  *byte // dir is nil for our own
	argv, envv []*byte
	stdio      [3]uintptr
	trouble    uintptr // where the child writes why it could not become it
}

func newImage(path string, args []string, attr *syscall.ProcAttr, trouble *os.File) (i image, err error) {
	if i.path, err = syscall.BytePtrFromString(path); err != nil {
		return i, err
	}
	if attr.Dir != "" {
		if i.dir, err = syscall.BytePtrFromString(attr.Dir); err != nil {
			return i, err
		}
	}
	if i.argv, err = syscall.SlicePtrFromStrings(args); err != nil {
		return i, err
	}
	if i.envv, err = syscall.SlicePtrFromStrings(attr.Env); err != nil {
		return i, err
	}
	i.stdio = [3]uintptr(attr.Files)
	i.trouble = trouble.Fd()
	return i, nil
}

// fork makes a child of the calling thread, under the thread's filters, that becomes
// the image as the leader of a session of its own.
//
// It is not [syscall.ForkExec], which shares memory with the child and stands still
// until that has become another program: under a filter that waits for us to let it,
// which we could not while we stand still.
//
//go:norace
func (i *image) fork() (pid int, err error) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	beforeFork()
	child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if child == 0 && errno == 0 {
		afterForkInChild()
		i.become()
	}
	afterFork()
	if errno != 0 {
		return 0, errno
	}
	return int(child), nil
}

// become is the child's: it calls the kernel alone, and never returns.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (i *image) become() {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	if errno == 0 && i.dir != nil {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(i.dir)), 0, 0)
	}
	for fd := 0; errno == 0 && fd < len(i.stdio); fd++ {
		_, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, i.stdio[fd], uintptr(fd), 0)
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(i.path)),
			uintptr(unsafe.Pointer(&i.argv[0])), uintptr(unsafe.Pointer(&i.envv[0])))
	}
	reported := uint32(errno)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, i.trouble, uintptr(unsafe.Pointer(&reported)), unsafe.Sizeof(reported))
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// became waits until a child is another program, or reads why not.
func became(trouble *os.File) error {
	var reported [4]byte
	_, err := io.ReadFull(trouble, reported[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return syscall.Errno(binary.NativeEndian.Uint32(reported[:]))
}
