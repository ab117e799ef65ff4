// Package bounded limits what strangers have us keep: the beginning of a stream, both its
// ends, a message whole or not at all, and bytes that several holders share.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Head keeps the first Limit bytes that are written to it and drops the others, so that
// nobody who writes is held up. Its methods may be called at the same time.
type Head struct {
	Limit int64
	W     io.Writer // gets what is kept; nil to keep it in memory
	Share *Budget   // also limits what is kept
	Full  func()    // called once, when something is dropped
	Fail  error     // what Write returns from then on; nil to drop and go on

	mu    sync.Mutex
	kept  []byte
	size  int64 // of all that was written
	cut   bool
	short bool  // Share had no room
	err   error // of W, or Fail
}

// Write implements [io.Writer]. Once W has failed, or something was dropped and there is
// Fail, it fails and keeps nothing more.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := max(0, min(h.Limit-h.size, int64(len(p))))
	h.size += int64(len(p))
	if h.err != nil {
		return 0, h.err
	}
	if !h.cut && h.Share.Take(room) {
		if h.err = h.keep(p[:room]); h.err != nil {
			return 0, h.err
		}
	} else {
		h.short = h.short || !h.cut
		room = 0
	}
	if room < int64(len(p)) && !h.cut {
		h.cut, h.err = true, h.Fail
		if h.Full != nil {
			h.Full()
		}
	}
	return len(p), h.err
}

func (h *Head) keep(p []byte) (err error) {
	if h.W != nil {
		_, err = h.W.Write(p)
		return err
	}
	h.kept = append(h.kept, p...)
	return nil
}

// Bytes returns what is kept in memory.
func (h *Head) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept
}

// String returns what is kept in memory, with U+FFFD in place of what is not UTF-8.
func (h *Head) String() string { return strings.ToValidUTF8(string(h.Bytes()), "\uFFFD") }

// Size returns how many bytes were written, kept or not.
func (h *Head) Size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// Over returns how many bytes were written beyond Limit.
func (h *Head) Over() int64 { return max(0, h.Size()-h.Limit) }

// Short reports whether something was dropped because Share had no room for it.
func (h *Head) Short() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.short
}

// Ends keeps the first Head and the last Tail bytes that are written to it. Its methods
// may be called at the same time.
type Ends struct {
	Head, Tail int
	W          io.Writer // gets everything too; its errors are ignored; may be nil

	mu         sync.Mutex
	head, tail []byte
	size       int64 // of all that was written
}

// Write implements [io.Writer]. It never fails.
func (e *Ends) Write(p []byte) (int, error) {
	if e.W != nil {
		_, _ = e.W.Write(p)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.size += int64(len(p))
	e.head = append(e.head, p[:min(len(p), e.Head-len(e.head))]...)
	e.tail = append(e.tail, p[max(0, len(p)-e.Tail):]...)
	e.tail = append(e.tail[:0], e.tail[max(0, len(e.tail)-e.Tail):]...)
	return len(p), nil
}

// String returns all that was written, or whole lines of its ends, where there are any, and
// between them how much is left out: half a secret would not be found in a text.
func (e *Ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	tail := string(e.tail)
	switch {
	case e.size > int64(e.Head+e.Tail):
		head := e.head[:bytes.LastIndexByte(e.head, '\n')+1]
		if _, lines, cut := strings.Cut(tail, "\n"); cut {
			tail = lines
		}
		return fmt.Sprintf("%s[%d bytes left out]\n%s", head, e.size-int64(len(head)+len(tail)), tail)
	case e.size > int64(e.Tail):
		return string(e.head[:e.size-int64(e.Tail)]) + tail
	}
	return tail
}

// Suffix returns what [Ends.String] does after a colon, for the end of a message; empty if that is blank.
func (e *Ends) Suffix() string {
	text := strings.TrimSpace(e.String())
	if text == "" {
		return ""
	}
	return ": " + text
}

// Budget is a number of bytes that several holders have together. A nil Budget has no end.
// Its methods may be called at the same time.
type Budget struct {
	max int64

	mu   sync.Mutex
	used int64
	over bool
}

// NewBudget returns a budget of max bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Take takes n bytes if there are so many left, and reports whether there were.
func (b *Budget) Take(n int64) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.max-b.used {
		b.over = true
		return false
	}
	b.used += n
	return true
}

// Give returns n bytes that were taken.
func (b *Budget) Give(n int64) { b.Take(-n) }

// Max returns how many bytes the budget has; 0 if it has no end.
func (b *Budget) Max() int64 {
	if b == nil {
		return 0
	}
	return b.max
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Over reports whether more was wanted than there was.
func (b *Budget) Over() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// Why a [Buffer] takes no more.
var (
	ErrTooLong  = errors.New("over the limit of one message")
	ErrNoMemory = errors.New("over the memory that all messages may take")
)

// Buffer holds the bytes of one message, up to Max of them, and takes the memory for them from
// Share. The holder calls Release. It is for one goroutine.
type Buffer struct {
	Bytes []byte
	Max   int64
	Share *Budget

	charged int64 // in addition to the capacity of Bytes
}

// Append adds a copy of p.
func (b *Buffer) Append(p []byte) error {
	if int64(len(b.Bytes)+len(p)) > b.Max {
		return ErrTooLong
	}
	if err := b.grow(len(b.Bytes) + len(p)); err != nil {
		return err
	}
	b.Bytes = append(b.Bytes, p...)
	return nil
}

// The room that ReadAll makes before any byte has come.
const (
	leastRoom = 512
	mostRoom  = 32 << 10
)

// ReadAll reads r to its end. Size is how many bytes r is said to have; negative if that is not
// known.
func (b *Buffer) ReadAll(r io.Reader, size int64) error {
	room := int64(leastRoom)
	if size >= 0 {
		room = min(size+1, mostRoom) // the last byte of room takes the end
	}
	err := b.grow(int(room))
	for err == nil {
		used := len(b.Bytes)
		if used == cap(b.Bytes) {
			err = b.grow(used + 1)
			continue
		}
		var n int
		n, err = r.Read(b.Bytes[used:cap(b.Bytes)])
		b.Bytes = b.Bytes[:used+n]
		if int64(len(b.Bytes)) > b.Max {
			return ErrTooLong
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// grow makes room for need bytes. While it copies it has taken both the old room and the new.
func (b *Buffer) grow(need int) error {
	old := cap(b.Bytes)
	if need <= old {
		return nil
	}
	size := int(min(int64(max(need, 2*old)), b.Max+1)) // one more byte shows that a message is too long
	if !b.Share.Take(int64(size)) {
		return ErrNoMemory
	}
	grown := make([]byte, len(b.Bytes), size)
	copy(grown, b.Bytes)
	b.Bytes = grown
	b.Share.Give(int64(old))
	return nil
}

// Charge takes n more bytes from Share, for what is held about the message elsewhere.
func (b *Buffer) Charge(n int64) error {
	if !b.Share.Take(n) {
		return ErrNoMemory
	}
	b.charged += n
	return nil
}

// Release gives everything back to Share and forgets the bytes. Whoever still has them accounts
// for them.
func (b *Buffer) Release() {
	b.Share.Give(int64(cap(b.Bytes)) + b.charged)
	b.Bytes, b.charged = nil, 0
}
