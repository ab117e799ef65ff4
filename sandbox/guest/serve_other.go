//go:build !linux

package guest

import "errors"

// Main fails: process 1 of a container needs Linux.
func Main([]string) error {
	return errors.New("process 1 of a container needs Linux")
}
