//go:build !linux && !darwin

// Package disk tells how much room a filesystem has.
package disk

// Free is not known here.
func Free(string) (int64, bool) { return 0, false }
