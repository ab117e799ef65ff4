// Package bounded limits how much of untrusted data is kept: the beginning of a stream, its
// beginning and end, a message completely or not at all, and bytes shared by several
// holders.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Head keeps the first Limit bytes written to it and drops the rest, so that writers are
// never blocked. It is safe for concurrent use.
type Head struct {
	Limit int64
	W     io.Writer // receives what is kept; nil keeps it in memory
	Share *Budget   // also limits what is kept; may be nil
	Full  func()    // called once, when something is first dropped
	Fail  error     // returned by Write once something was dropped; nil to drop silently

	mu   sync.Mutex
	kept []byte
	size int64 // of all writes
	cut  bool
	err  error // from W, or Fail
}

// Write implements [io.Writer]. Once W has failed, or something was dropped and Fail is
// set, it returns that error and keeps nothing more.
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

// Bytes returns the bytes kept in memory.
func (h *Head) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept
}

// String returns the bytes kept in memory as text, with invalid UTF-8 replaced by U+FFFD.
func (h *Head) String() string { return strings.ToValidUTF8(string(h.Bytes()), "\uFFFD") }

// Size returns the number of bytes written, kept or not.
func (h *Head) Size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// Over returns the number of bytes written beyond Limit.
func (h *Head) Over() int64 { return max(0, h.Size()-h.Limit) }

// Ends keeps the first Head and the last Tail bytes written to it. It is safe for
// concurrent use.
type Ends struct {
	Head, Tail int
	W          io.Writer // also receives everything; errors are ignored; may be nil

	mu         sync.Mutex
	head, tail []byte
	size       int64 // of all writes
}

// Write implements [io.Writer]. It never returns an error.
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

// String returns everything written, or whole lines from its beginning and end with the
// number of bytes left out between them. Lines are not cut if possible, since half a secret
// would not be found.
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

// Suffix returns a colon and the text of [Ends.String], to end a message with, or "" if
// that is blank.
func (e *Ends) Suffix() string {
	text := strings.TrimSpace(e.String())
	if text == "" {
		return ""
	}
	return ": " + text
}

// Budget is a number of bytes shared by several holders. A nil Budget is unlimited. It is
// safe for concurrent use.
type Budget struct {
	max int64

	mu   sync.Mutex
	used int64
}

// NewBudget returns a budget of max bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Take takes n bytes if that many are left, and reports whether it did.
func (b *Budget) Take(n int64) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.max-b.used {
		return false
	}
	b.used += n
	return true
}

// Give returns n bytes to the budget.
func (b *Budget) Give(n int64) { b.Take(-n) }

// Used returns the number of bytes taken.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Errors of a [Buffer].
var (
	ErrTooLong  = errors.New("over the limit of one message")
	ErrNoMemory = errors.New("over the memory that all messages may take")
)

// Buffer holds up to Max bytes of one message and takes the memory for them from Share. The
// holder must call Release. It is not safe for concurrent use.
type Buffer struct {
	Bytes []byte
	Max   int64
	Share *Budget

	charged int64 // in addition to the capacity of Bytes
}

// Append appends a copy of p.
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

// Limits on the memory that ReadAll allocates before the first byte arrives.
const (
	leastRoom = 512
	mostRoom  = 32 << 10
)

// ReadAll reads r to its end. size is the announced size, negative if unknown.
func (b *Buffer) ReadAll(r io.Reader, size int64) error {
	room := int64(leastRoom)
	if size >= 0 {
		room = min(size+1, mostRoom) // one more byte than needed, to detect the end
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

// grow makes room for need bytes. While copying it accounts for the old and the new memory.
func (b *Buffer) grow(need int) error {
	old := cap(b.Bytes)
	if need <= old {
		return nil
	}
	size := int(min(int64(max(need, 2*old)), b.Max+1)) // one more byte than Max, to detect messages that are too long
	if !b.Share.Take(int64(size)) {
		return ErrNoMemory
	}
	grown := make([]byte, len(b.Bytes), size)
	copy(grown, b.Bytes)
	b.Bytes = grown
	b.Share.Give(int64(old))
	return nil
}

// Charge takes n more bytes from Share, for memory held elsewhere on behalf of the message.
func (b *Buffer) Charge(n int64) error {
	if !b.Share.Take(n) {
		return ErrNoMemory
	}
	b.charged += n
	return nil
}

// Release returns everything to Share and drops the bytes.
func (b *Buffer) Release() {
	b.Share.Give(int64(cap(b.Bytes)) + b.charged)
	b.Bytes, b.charged = nil, 0
}
