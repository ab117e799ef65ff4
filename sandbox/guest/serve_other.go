//go:build !linux

package guest

import "errors"

// Main is process 1 of a Linux container, which this system cannot be.
func Main([]string) error {
	return errors.New("process 1 of a container needs Linux")
}
