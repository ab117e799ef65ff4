package redact

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"maps"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// redaction is the state of redacting a text that arrives in pieces.
type redaction struct {
	out     []byte
	found   Found
	covered int  // bytes to come that belong to counted secrets
	blank   bool // replace secrets without changing the length
}

// redact appends the redacted b to r.out, and returns how many bytes of b are done: all if
// last is set, otherwise those that do not depend on what follows.
func (r *redaction) redact(f *finder, b []byte, last bool) (done int) {
	for piece, found := range f.pieces(b, last) {
		at := 0
		for _, m := range found {
			r.pass(piece[at:m.start])
			at = m.start
			if r.covered == 0 {
				r.count(m.of)
			}
			r.covered = max(r.covered, m.end-m.start)
		}
		r.pass(piece[at:])
		done += len(piece)
	}
	return done
}

// count starts a span for a secret.
func (r *redaction) count(of *value) {
	if !r.blank {
		r.out = append(r.out, Mark...)
	}
	r.found.Spans++
	for _, name := range of.names {
		r.found.count(name, 1)
	}
}

// pass appends bytes in which no further secret begins, omitting those that belong to an
// earlier one.
func (r *redaction) pass(b []byte) {
	n := min(r.covered, len(b))
	r.covered -= n
	if r.blank {
		r.out = append(r.out, bytes.Repeat([]byte{blank}, n)...)
	}
	r.out = append(r.out, b[n:]...)
}

// Writer redacts a stream with the same result as [Set.Bytes] for the whole, however it is
// divided into writes. It buffers what may be the beginning of a secret. Close flushes the
// buffer and closes the underlying writer.
type Writer struct {
	set *Set
	out io.WriteCloser

	mu   sync.Mutex
	held []byte    // guarded by mu
	done redaction // guarded by mu
}

// NewWriter returns a Writer that writes redacted bytes to out.
func NewWriter(set *Set, out io.WriteCloser) *Writer {
	return &Writer{set: set, out: out}
}

// NewBlanker returns a Writer that replaces each byte of a secret with an asterisk, which
// preserves the length.
func NewBlanker(set *Set, out io.WriteCloser) *Writer {
	w := NewWriter(set, out)
	w.done.blank = true
	return w
}

// Found returns the counts so far.
func (w *Writer) Found() Found {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.done.found
	found.Secrets = maps.Clone(found.Secrets)
	return found
}

// Write redacts p after any buffered bytes.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	if err := w.flushLocked(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close flushes the buffer and closes the underlying writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.flushLocked(true), w.out.Close())
}

func (w *Writer) flushLocked(last bool) error {
	n := w.done.redact(w.set.find(), w.held, last)
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

// unclosed is a writer whose Close does nothing.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
