package runner

import (
	"io"
	"sync"
)

const (
	// maxServiceOutput is how many bytes of each of a service's outputs are kept.
	maxServiceOutput = 16 << 20
	// maxLastWords is how much of its end is there for messages.
	maxLastWords = 2 << 10
)

// excerpt keeps the beginning of an output in a file and its end at hand. Writing
// to it never fails: what cannot be kept is no reason to hold a service up.
type excerpt struct {
	mu   sync.Mutex
	out  io.Writer // nil once it is full or broken; guarded by mu
	left int64     // guarded by mu
	tail []byte    // guarded by mu
	full func()
}

func newExcerpt(out io.Writer, limit int64, full func()) *excerpt {
	return &excerpt{out: out, left: limit, full: full}
}

func (e *excerpt) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tail = append(e.tail, p[max(0, len(p)-maxLastWords):]...)
	e.tail = append(e.tail[:0], e.tail[max(0, len(e.tail)-maxLastWords):]...)
	if e.out == nil {
		return len(p), nil
	}
	if _, err := e.out.Write(upTo(p, e.left)); err != nil {
		e.out = nil
		return len(p), nil
	}
	if e.left -= int64(len(p)); e.left < 0 {
		e.out = nil
		e.full()
	}
	return len(p), nil
}

func (e *excerpt) end() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.tail)
}
