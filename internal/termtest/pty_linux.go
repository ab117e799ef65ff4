package termtest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// PTY is a pseudoterminal connected to a Terminal.
type PTY struct {
	*os.File // written to by a program

	master *os.File
	read   sync.WaitGroup

	mu   sync.Mutex
	term *Terminal // guarded by mu
}

// Open returns a pseudoterminal that is closed at the end of the test. It skips the test if
// the system has no pseudoterminals, and fails it on other errors.
func Open(t testing.TB, columns, rows int) *PTY {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NO PSEUDOTERMINAL: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &PTY{File: slave, master: master, term: New(columns, rows)}
	p.Resize(t, columns, rows)
	p.read.Go(p.show)
	t.Cleanup(func() { p.end(t) })
	return p
}

func (p *PTY) show() {
	for {
		ready := []unix.PollFd{{Fd: int32(p.master.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		p.mu.Lock()
		p.takeInLocked()
		p.mu.Unlock()
		if ready[0].Revents&(unix.POLLHUP|unix.POLLIN) == unix.POLLHUP {
			return // closed by all writers, and everything was read
		}
	}
}

// takeInLocked shows pending output.
func (p *PTY) takeInLocked() {
	buf := make([]byte, 32<<10)
	for {
		if n, err := unix.IoctlGetInt(int(p.master.Fd()), unix.TIOCINQ); err != nil || n == 0 {
			return
		}
		n, err := p.master.Read(buf)
		_, _ = p.term.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// Resize changes the size of the terminal, after showing all earlier output. The kernel
// delivers output late but in order, so a NUL written now marks its end.
func (p *PTY) Resize(t testing.TB, columns, rows int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.File.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 32<<10); ; {
		n, err := p.master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		before, _, ends := bytes.Cut(buf[:n], []byte{0})
		_, _ = p.term.Write(before)
		if ends {
			break
		}
	}
	size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	p.term.Resize(columns, rows)
}

// Type simulates keyboard input.
func (p *PTY) Type(t testing.TB, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// Text returns the current content of the terminal.
func (p *PTY) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term.Text()
}

// End closes the terminal, waits until all output is shown, and returns the content.
func (p *PTY) End(t testing.TB) (text string, unknown []string) {
	t.Helper()
	if err := p.File.Close(); err != nil {
		t.Error(err)
	}
	p.read.Wait()
	return p.Text(), p.term.Unknown
}

func (p *PTY) end(t testing.TB) {
	if err := p.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	p.read.Wait()
	if err := p.master.Close(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
