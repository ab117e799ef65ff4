package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// mark makes [Held] report the directory as held. It takes a second lock of a kind that can be
// queried. This lock excludes nobody. Errors are ignored: a file system may not support it.
func mark(file *os.File) {
	_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
}

// Held reports whether a process holds a run directory with [Hold], in this container or
// another. It takes no lock, so it does not interfere with [Hold]. If the state is unknown, as
// for a missing directory, it returns false.
func Held(dir string) bool {
	file, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	would := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &would)
	return err == nil && would.Type != unix.F_UNLCK
}
