package proxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/waza-isolate/waza/internal/bounded"
)

func TestEventReader(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want int // events
		err  error
	}{
		"whole":       {"data: a\n\ndata: b\n\n", 2, io.EOF},
		"blank end":   {"data: a\r\n\r\n\r\n", 2, io.EOF},
		"unfinished":  {"data: a\n\ndata: b\n", 1, io.ErrUnexpectedEOF},
		"half a line": {"data: a", 0, io.ErrUnexpectedEOF},
		"too long":    {"data: a\n\ndata: " + strings.Repeat("x", 4096), 1, errTooLong},
		"empty":       {"", 0, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.in), iotest.OneByteReader(strings.NewReader(test.in))} {
				memory := bounded.NewBudget(1 << 20)
				in := newEventReader(r, 1024, memory)
				n := 0
				e, err := in.next()
				for ; err == nil; e, err = in.next() {
					n++
					e.release()
				}
				if n != test.want || !errors.Is(err, test.err) || memory.Used() != 0 {
					t.Errorf("%d events, %v, %d bytes taken", n, err, memory.Used())
				}
			}
		})
	}
}
