//go:build linux || darwin

package files

import "golang.org/x/sys/unix"

// FreeSpace returns the number of bytes that an unprivileged program can still write to the
// file system of path; ok is false if it is unknown.
func FreeSpace(path string) (int64, bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true
}
