package local

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxTail is how much is read of an output once its time is over: more than a
// pipe holds.
const maxTail = 1 << 20

// output is our end of a program's stdout or stderr. It has one reader.
type output struct {
	file *os.File
	tail int // bytes still read when its time is over
	once sync.Once
	done chan struct{} // closed at its end
}

func newOutput(file *os.File) *output {
	return &output{file: file, tail: maxTail, done: make(chan struct{})}
}

// Read ends in io.EOF, whatever ended it.
func (o *output) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(p)
	}
	if err != nil {
		o.close()
		return n, io.EOF
	}
	return n, nil
}

// rest reads what stands in the pipe when its time is over, and waits for no more.
func (o *output) rest(p []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := o.file.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	p = p[:min(len(p), o.tail)]
	readErr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return true
			}
		}
	})
	if readErr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	o.tail -= n
	return n, o.file.SetReadDeadline(time.Unix(1, 0))
}

// endWithin ends the output after a while, although somebody may hold it open.
func (o *output) endWithin(d time.Duration) { _ = o.file.SetReadDeadline(time.Now().Add(d)) }

// close ends the output now.
func (o *output) close() {
	o.once.Do(func() {
		_ = o.file.Close()
		close(o.done)
	})
}
