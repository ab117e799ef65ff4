package evidence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DiskFull reports whether an error is that there is no room left to write.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// reported returns an error of writing in words for the person who has to mend it.
func reported(err error) error {
	if DiskFull(err) {
		return fmt.Errorf("the disk is full: %w", err)
	}
	return err
}

// roomFile takes the room that a trial's documents need at its end, whatever fills the
// disk meanwhile.
const (
	roomFile = ".room"
	roomSize = 128 << 10
)

// keepRoom leaves nothing where there is not that much room.
func keepRoom(dir string) error {
	path := filepath.Join(dir, roomFile)
	err := os.WriteFile(path, make([]byte, roomSize), 0o644)
	if err != nil {
		return reported(errors.Join(err, dropRoom(dir)))
	}
	return nil
}

// CheckRoom fails where dir has not the room that a trial keeps.
func CheckRoom(dir string) error {
	if err := keepRoom(dir); err != nil {
		return err
	}
	return dropRoom(dir)
}

func dropRoom(dir string) error {
	err := os.Remove(filepath.Join(dir, roomFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// noting is a file of a trial. What cannot be written to it is the recorder's to tell,
// whatever the writer makes of it.
type noting struct {
	file *os.File
	rec  *Recorder
}

var _ io.WriteCloser = noting{}

func (n noting) Write(p []byte) (int, error) {
	written, err := n.file.Write(p)
	return written, n.rec.note(err)
}

func (n noting) Close() error { return n.rec.note(n.file.Close()) }
