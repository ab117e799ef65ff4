package runner

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox"
)

// Hold takes a run directory for this process, until it closes what is returned or
// ends, however that is. It fails with [sandbox.ErrAlive] where another has it. On file
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
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, sandbox.ErrAlive), file.Close())
	}
	mark(file)
	return file, nil
}
