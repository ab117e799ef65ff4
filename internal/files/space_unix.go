//go:build linux || darwin

package files

import "golang.org/x/sys/unix"

// FreeSpace returns how many bytes an unprivileged program may still write to the file system
// of path, and whether that is known.
func FreeSpace(path string) (int64, bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true
}
