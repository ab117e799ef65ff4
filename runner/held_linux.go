package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// mark has [Held] see who holds a directory. It is a second lock, of the kind that the
// kernel tells of without anybody having to try for it; it keeps nobody out. A file
// system that does not know it leaves the directory held all the same.
func mark(file *os.File) {
	_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
}

// Held says whether a process has taken a run directory with [Hold], in this container
// or another. It only asks: who tries to take the directory meanwhile is not disturbed.
// Where that cannot be told, as of a directory that is not there, it is false.
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
