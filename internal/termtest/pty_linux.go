package termtest

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// PTY is a pseudoterminal whose other end shows what is written to it.
type PTY struct {
	*os.File // what a program writes to

	master *os.File
	read   sync.WaitGroup

	mu   sync.Mutex
	term *Terminal // guarded by mu
}

// Open returns a pseudoterminal of a size, which is gone when the test ends. It skips
// where the system has none to give, and fails where there should be one.
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
	buf := make([]byte, 32<<10)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		_, _ = p.term.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return // EIO is the end of a pseudoterminal
		}
	}
}

// Resize makes the terminal so wide and high.
func (p *PTY) Resize(t testing.TB, columns, rows int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	p.term.Resize(columns, rows)
}

// Text is what is on the terminal now.
func (p *PTY) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term.Text()
}

// End waits until all that was written is shown, and returns that. Nothing can be written
// any more.
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
