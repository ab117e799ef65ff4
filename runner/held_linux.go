package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// mark makes [Held] report the directory as held. It takes a second lock, of a kind that can
// be queried without being taken; it keeps nobody out. A file system without such locks
// leaves the directory held all the same.
func mark(file *os.File) {
	_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
}

// Held reports whether a process has taken a run directory with [Hold], in this container or
// another. It takes no lock itself, so it disturbs nobody who takes the directory meanwhile.
// It is false if that cannot be known, as for a missing directory.
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
