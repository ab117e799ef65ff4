//go:build !linux

package probe

import (
	"errors"
	"io"
)

// Main only works on Linux.
func Main([]string, io.Reader, io.Writer) error {
	return errors.New("waza probe runs in Linux containers only")
}
