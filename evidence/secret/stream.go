package secret

import (
	"io"
	"maps"
	"math"
	"slices"
	"sync"
)

// Writer redacts a stream with the same result as [Set.Bytes] for the whole, however it is
// divided into writes. It buffers what may be the beginning of a secret; Close flushes the
// buffer. Once the underlying writer has failed, for example because it is full, Write returns
// its error and searches no more.
type Writer struct {
	set *Set
	out io.Writer

	mu      sync.Mutex
	secrets *secrets // the secrets that matcher looks for; guarded by mu
	matcher *matcher // nil until there are secrets; guarded by mu
	at      int      // offset of held in the input of matcher; guarded by mu
	before  int      // number of bytes before the input of matcher; guarded by mu
	held    []byte   // guarded by mu
	ahead   []match  // guarded by mu
	covered int      // offset of the end of the counted secrets; guarded by mu
	found   Found    // guarded by mu
	failed  error    // error from out; guarded by mu
}

// NewWriter returns a Writer that writes redacted bytes to out.
func NewWriter(set *Set, out io.Writer) *Writer {
	return &Writer{set: set, out: out}
}

// Found returns what was replaced so far.
func (w *Writer) Found() Found {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Found{Spans: w.found.Spans, Secrets: maps.Clone(w.found.Secrets), Where: slices.Clone(w.found.Where)}
}

// Write redacts p after any buffered bytes.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return 0, w.failed
	}
	if now := w.set.find(); now != w.secrets { // secrets were added
		w.secrets, w.ahead = now, nil
		w.covered, w.before, w.at = max(0, w.covered-w.at), w.before+w.at, 0
		w.matcher = newMatcher(now.finder, false, func(m match) { w.ahead = append(w.ahead, m) })
		w.matcher.write(w.held)
	}
	if w.matcher == nil {
		w.before += len(p)
		n, err := w.out.Write(p)
		w.failed = err
		return n, err
	}
	w.held = append(w.held, p...)
	w.matcher.write(p)
	if err := w.flushLocked(w.matcher.decided()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close flushes the buffer. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.matcher == nil || w.failed != nil {
		return nil
	}
	w.matcher.end()
	return w.flushLocked(w.at + len(w.held))
}

// flushLocked writes the held bytes up to an offset.
func (w *Writer) flushLocked(to int) error {
	done := w.held[:to-w.at]
	sortMatches(w.ahead)
	next := slices.IndexFunc(w.ahead, func(m match) bool { return m.start >= to })
	if next < 0 {
		next = len(w.ahead)
	}
	w.coverLocked(done, w.covered)
	for _, m := range w.ahead[:next] {
		if m.start >= w.covered {
			w.found.note(Span{w.before + m.start, m.end - m.start, w.secrets.values[m.of].names}, math.MaxInt)
		} else if last := len(w.found.Where) - 1; last >= 0 {
			w.found.Where[last].Bytes = max(w.found.Where[last].Bytes, w.before+m.end-w.found.Where[last].At)
		}
		if m.end > w.covered {
			cover(done[m.start-w.at : min(m.end, to)-w.at])
			w.covered = m.end
		}
	}
	w.ahead = append(w.ahead[:0], w.ahead[next:]...)
	if len(done) == 0 {
		return nil
	}
	_, w.failed = w.out.Write(done)
	w.at = to
	w.held = append(w.held[:0], w.held[len(done):]...)
	return w.failed
}

// coverLocked replaces the bytes of done that are before an offset.
func (w *Writer) coverLocked(done []byte, before int) {
	cover(done[:max(0, min(before-w.at, len(done)))])
}
