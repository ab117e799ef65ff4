package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks an open file or directory as flock(2) does. The lock ends when the file is closed or
// the process exits.
func Lock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
