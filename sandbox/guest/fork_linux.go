package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// The runtime's hooks for a fork: they block signals until the child has reset our handlers.
// The runtime keeps these for packages that link to them (go.dev/issue/67401).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// image is what a child executes, in the form that the kernel expects. It is prepared before
// the fork, because the child must not allocate.
type image struct {
	path, dir  *byte // dir is nil for our own
	argv, envv []*byte
	stdio      [3]uintptr
	trouble    uintptr // descriptor to which the child writes its error
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

// fork forks the calling thread, including its seccomp filters. The child becomes a session
// leader and executes the image.
//
// It does not use [syscall.ForkExec], which shares memory with the child and blocks until the
// child has called exec. Under the filter, exec waits for us, so we must not block.
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

// become runs in the child and never returns. It must only make system calls.
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

// became waits until the child has called exec, or returns the error that the child reports.
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
