//go:build linux || darwin

// Package disk reports how much room a filesystem has.
package disk

import "golang.org/x/sys/unix"

// Free is how many bytes a program without privileges may still write beside path; false
// where that cannot be told.
func Free(path string) (int64, bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true
}
