package redact

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// redaction is a stream's redacted bytes so far.
type redaction struct {
	out     []byte
	found   Found
	covered int  // bytes to come that the last mark stands for
	blank   bool // a secret keeps its length
}

// redact appends to r.out what becomes of b, and returns how much of b it is done
// with: all, or, where more is to come, up to where that decides.
func (r *redaction) redact(forms *index, b []byte, last bool) int {
	for i := 0; i < len(b); {
		next := forms.next(b[i:])
		r.pass(b[i : i+next])
		if i += next; i == len(b) {
			break
		}
		f, length, open := forms.longestAt(b[i:])
		if open && !last {
			return i
		}
		r.cover(f, length)
		r.pass(b[i : i+1])
		i++
	}
	return len(b)
}

// cover marks the next length bytes, which are f.
func (r *redaction) cover(f *form, length int) {
	if length > 0 && r.covered == 0 {
		if !r.blank {
			r.out = append(r.out, Mark...)
		}
		r.found.Spans++
		for _, name := range f.of.names {
			r.found.count(name, 1)
		}
	}
	r.covered = max(r.covered, length)
}

// pass takes bytes that no further secret begins in.
func (r *redaction) pass(b []byte) {
	n := min(r.covered, len(b))
	r.covered -= n
	if r.blank {
		r.out = append(r.out, bytes.Repeat([]byte{blank}, n)...)
	}
	r.out = append(r.out, b[n:]...)
}

// Writer redacts a stream as Bytes does the whole of it, wherever it is cut into
// writes: it holds back what may be the beginning of a secret. Close writes that
// and closes the underlying writer.
type Writer struct {
	set *Set
	out io.WriteCloser

	mu   sync.Mutex
	held []byte    // guarded by mu
	done redaction // guarded by mu
}

// NewWriter returns a Writer that passes redacted bytes to out.
func NewWriter(set *Set, out io.WriteCloser) *Writer {
	if set == nil {
		set = &Set{}
	}
	return &Writer{set: set, out: out}
}

// NewBlanker returns a Writer that has asterisks in place of secrets, one for each
// byte: what it passes to out is as long as what is written to it.
func NewBlanker(set *Set, out io.WriteCloser) *Writer {
	w := NewWriter(set, out)
	w.done.blank = true
	return w
}

// Found is what was replaced so far.
func (w *Writer) Found() Found {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.found.copied()
}

// Write redacts what was held back before it, and p.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	if err := w.flushLocked(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.flushLocked(true), w.out.Close())
}

func (w *Writer) flushLocked(last bool) error {
	w.set.mu.RLock()
	n := w.done.redact(&w.set.forms, w.held, last)
	w.set.mu.RUnlock()
	w.held = append(w.held[:0], w.held[n:]...)
	if len(w.done.out) == 0 {
		return nil
	}
	_, err := w.out.Write(w.done.out)
	w.done.out = w.done.out[:0]
	return err
}

// pass writes the redacted parts of a stream to w, and returns what it replaced.
func (s *Set) pass(w io.Writer, parts iter.Seq[[]byte]) (found Found, err error) {
	out := NewWriter(s, unclosed{w})
	for part := range parts {
		for len(part) > 0 && err == nil {
			n := min(len(part), jsontext.Piece)
			_, err = out.Write(part[:n])
			part = part[n:]
		}
	}
	err = errors.Join(err, out.Close())
	return out.done.found, err
}

// unclosed is a writer that its user does not close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
