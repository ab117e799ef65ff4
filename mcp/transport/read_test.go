package transport

import (
	"bytes"
	"encoding/json"
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
		"too long":    {"data: a\n\ndata: " + strings.Repeat("x", 4096), 1, ErrTooLong},
		"empty":       {"", 0, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.in), iotest.OneByteReader(strings.NewReader(test.in))} {
				memory := bounded.NewBudget(1 << 20)
				in := NewEventReader(r, 1024, memory)
				n := 0
				e, err := in.Next()
				for ; err == nil; e, err = in.Next() {
					if string(e.Raw) != "\n" { // the end of a line of which the event has the beginning
						n++
					}
					e.Release()
				}
				if n != test.want || !errors.Is(err, test.err) || memory.Used() != 0 {
					t.Errorf("%d events, %v, %d bytes taken", n, err, memory.Used())
				}
			}
		})
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add([]byte("{\r\n\"a\": \"\\n\"}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		line := oneLine(raw)
		if n := bytes.IndexAny(line, "\r\n"); n != len(line)-1 {
			t.Fatalf("%q is not one line", line)
		}
		var before, after bytes.Buffer
		if err := errors.Join(json.Compact(&before, raw), json.Compact(&after, line)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before.Bytes(), after.Bytes()) {
			t.Fatalf("%q became %q", raw, line)
		}
	})
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\r\n\nb\nc"), int64(10))
	f.Fuzz(func(t *testing.T, raw []byte, max int64) {
		memory := bounded.NewBudget(1 << 20)
		err := readLines(bytes.NewReader(raw), max&0xff, memory, func(line []byte) error {
			if int64(len(line)) > max&0xff || bytes.Contains(line, []byte("\n")) {
				t.Fatalf("line %q", line)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrNoMemory) {
			t.Fatal(err)
		}
		if lost := memory.Used(); lost != 0 {
			t.Fatalf("%d bytes are lost", lost)
		}
	})
}

// A copy of the data of an event counts like the event.
func TestDataOfAnEventCounts(t *testing.T) {
	memory := bounded.NewBudget(1 << 20)
	in := NewEventReader(strings.NewReader(strings.Repeat("data:"+strings.Repeat("a", 1<<10)+"\n", 600)+"\n"), 1<<20, memory)
	if _, err := in.Next(); !errors.Is(err, ErrNoMemory) {
		t.Errorf("got %v", err)
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are taken", used)
	}
}
