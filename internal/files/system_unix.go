//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lock locks an open directory until it is closed or the process exits. Without wait it returns
// [ErrLocked] if another process has the lock.
func Lock(dir *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(dir.Fd()), how)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// FreeSpace returns the number of bytes that an unprivileged program can still write to the
// file system of path; ok is false if it is unknown.
func FreeSpace(path string) (int64, bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true
}

// IsPrivate reports whether a file belongs to this process's user, and others have no rights on it.
func IsPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

// OnDisk returns how many bytes a file takes on disk; ok is false if it is unknown.
func OnDisk(info fs.FileInfo) (n int64, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Blocks * 512, true
}

// isHardLink reports whether a file has another name.
func isHardLink(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}
