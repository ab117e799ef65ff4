//go:build !linux

package probe

import (
	"errors"
	"io"
)

// Main works on Linux alone, which containers run.
func Main([]string, io.Reader, io.Writer) error {
	return errors.New("waza probe runs in Linux containers only")
}
