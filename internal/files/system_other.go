//go:build !unix

package files

import (
	"io/fs"
	"os"
)

// Lock always returns [ErrNoLocks].
func Lock(*os.File, bool) error { return ErrNoLocks }

// FreeSpace is not supported on this system.
func FreeSpace(string) (int64, bool) { return 0, false }

// IsPrivate returns true: directories for temporary files belong to the user here.
func IsPrivate(fs.FileInfo) bool { return true }

// OnDisk is not supported on this system.
func OnDisk(fs.FileInfo) (int64, bool) { return 0, false }

// isHardLink returns false: this system does not report it with a file's size.
func isHardLink(fs.FileInfo) bool { return false }
