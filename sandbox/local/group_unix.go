//go:build unix

package local

import (
	"errors"
	"os"
	"syscall"
)

// group is the process group of a program.
type group int

func groupOf(leader *os.Process) group { return group(leader.Pid) }

// signal sends a signal to the remaining processes of the group.
func (g group) signal(number syscall.Signal) error {
	if err := syscall.Kill(-int(g), number); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// end kills the group.
func (g group) end() { _ = g.signal(syscall.SIGKILL) }

// read reads from a pipe without waiting.
func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }
