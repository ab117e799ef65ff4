package runner

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrAlive says that another process is at work on a run.
var ErrAlive = errors.New("the run is still at work")

// Hold takes a run directory for this process, until it closes what is returned or
// ends, however that is. It fails with [ErrAlive] where another has it. On file
// systems that know no locks it holds nothing.
func Hold(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrAlive), file.Close())
	}
	mark(file)
	return file, nil
}
