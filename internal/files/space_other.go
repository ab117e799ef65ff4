//go:build !linux && !darwin

package files

// FreeSpace is not supported on this system.
func FreeSpace(string) (int64, bool) { return 0, false }
