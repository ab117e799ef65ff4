package bounded

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestHead(t *testing.T) {
	full := 0
	h := &Head{Limit: 5, Full: func() { full++ }}
	for _, part := range []string{"ab", "", "cdef", "g"} {
		if n, err := io.WriteString(h, part); n != len(part) || err != nil {
			t.Errorf("%q: %d, %v", part, n, err)
		}
	}
	if h.String() != "abcde" || h.Size() != 7 || h.Over() != 2 || full != 1 {
		t.Errorf("kept %q of %d, %d over, told %d times", h, h.Size(), h.Over(), full)
	}
}

func TestHeadThatFails(t *testing.T) {
	tooMuch := errors.New("too much")
	var kept bytes.Buffer
	h := &Head{Limit: 5, W: &kept, Fail: tooMuch}
	for _, part := range []string{"abcd", "efg", "h"} {
		if _, err := io.WriteString(h, part); (err != nil) != (part != "abcd") || err != nil && err != tooMuch {
			t.Errorf("%q: %v", part, err)
		}
	}
	if kept.String() != "abcde" {
		t.Errorf("kept %q", kept.String())
	}
}

// What does not fit into the share leaves no hole: nothing behind it is kept.
func TestHeadWithinAShare(t *testing.T) {
	h := &Head{Limit: 100, Share: NewBudget(3)}
	for _, part := range []string{"ab", "cd", "e"} {
		if _, err := io.WriteString(h, part); err != nil {
			t.Error(err)
		}
	}
	if h.String() != "ab" || h.Share.Used() != 2 {
		t.Errorf("kept %q, %d bytes are taken", h, h.Share.Used())
	}
}

func TestEnds(t *testing.T) {
	for said, want := range map[string]string{
		"":                              "",
		"1\n2\n":                        "1\n2\n",
		"1\n2\n3\n4\n5\n6\n7\n":         "1\n2\n3\n4\n5\n6\n7\n",
		"1\n234\n5\n6\n7\n8\n9\n10\n11": "1\n[10 bytes left out]\n8\n9\n10\n11",
		"one line that has no end":      "[14 bytes left out]\nhas no end",
	} {
		for _, pieces := range []int{1, 3, 100} {
			var whole bytes.Buffer
			e := &Ends{Head: 4, Tail: 10, W: &whole}
			for in := said; in != ""; {
				n, _ := io.WriteString(e, in[:min(len(in), pieces)])
				in = in[n:]
			}
			if got := e.String(); got != want || whole.String() != said {
				t.Errorf("%q: %q", said, got)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(10)
	if !b.Take(7) || b.Take(4) || !b.Take(3) || b.Used() != 10 {
		t.Errorf("%d of 10 bytes are taken", b.Used())
	}
	if b.Give(6); b.Used() != 4 {
		t.Errorf("%d bytes are taken", b.Used())
	}
	var endless *Budget
	if !endless.Take(1<<62) || endless.Used() != 0 {
		t.Error("no budget has an end")
	}
}

func TestBuffer(t *testing.T) {
	for name, test := range map[string]struct {
		bytes, max, share int64
		err               error
	}{
		"fits":         {1000, 1000, 4096, nil},
		"too long":     {1001, 1000, 4096, ErrTooLong},
		"large":        {100_000, 1 << 20, 1 << 20, nil},
		"no memory":    {100_000, 1 << 20, 150_000, ErrNoMemory},
		"none to read": {0, 10, 1024, nil},
	} {
		for _, size := range []int64{-1, test.bytes} {
			share := NewBudget(test.share)
			b := &Buffer{Max: test.max, Share: share}
			text := strings.Repeat("x", int(test.bytes))
			err := b.ReadAll(iotest.HalfReader(strings.NewReader(text)), size)
			if err != test.err || err == nil && string(b.Bytes) != text {
				t.Errorf("%s: %v, %d bytes", name, err, len(b.Bytes))
			}
			if share.Used() < int64(cap(b.Bytes)) {
				t.Errorf("%s: %d bytes taken for %d", name, share.Used(), cap(b.Bytes))
			}
			if b.Release(); share.Used() != 0 {
				t.Errorf("%s: %d bytes are not given back", name, share.Used())
			}
		}
	}
	share := NewBudget(100)
	b := &Buffer{Max: 10, Share: share}
	if err := b.Append([]byte("0123456789")); err != nil || b.Append([]byte("x")) != ErrTooLong {
		t.Errorf("appended %q, %v", b.Bytes, err)
	}
	if b.Charge(50) != nil || b.Charge(50) != ErrNoMemory {
		t.Error("charged otherwise than there is memory")
	}
	if b.Release(); share.Used() != 0 {
		t.Errorf("%d bytes are not given back", share.Used())
	}
}
