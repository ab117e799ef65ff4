package mcpproxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
)

// headSize and tailSize are how much of the beginning and the end of a process's stderr is
// kept for messages.
const (
	headSize = 1 << 10
	tailSize = 2 << 10
)

// stderrSink takes what all processes of one server write to their stderr, up to
// a limit. It never fails and never blocks on the limit: what is over is lost.
type stderrSink struct {
	mu   sync.Mutex
	out  io.Writer // nil after it failed; guarded by mu
	left int64     // guarded by mu
	full func()    // called once, when the limit is reached; guarded by mu
}

func newStderrSink(out io.Writer, limit int64, full func()) *stderrSink {
	if out == nil {
		out = io.Discard
	}
	if !defence.BoundedStderr {
		limit = 1 << 30
	}
	return &stderrSink{out: out, left: limit, full: full}
}

func (s *stderrSink) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return
	}
	n := min(int64(len(p)), s.left)
	s.left -= n
	if _, err := s.out.Write(p[:n]); err != nil {
		s.out = nil
		return
	}
	if n < int64(len(p)) {
		s.out = nil
		s.full()
	}
}

// stderr is the stderr of one process: it goes to the server's sink, and its head and
// its tail are kept.
type stderr struct {
	sink *stderrSink

	mu   sync.Mutex
	size int64  // of all that was written; guarded by mu
	head []byte // guarded by mu
	tail []byte // guarded by mu
}

// Write never fails, so that a process never stalls on its stderr.
func (s *stderr) Write(p []byte) (int, error) {
	s.sink.write(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += int64(len(p))
	s.head = append(s.head, p[:min(len(p), headSize-len(s.head))]...)
	s.tail = append(s.tail, p[max(0, len(p)-tailSize):]...)
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-tailSize):]...)
	return len(p), nil
}

// lastWords are the tail, behind the head where that is not in it.
func (s *stderr) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := string(s.tail)
	switch {
	case s.size > headSize+tailSize:
		// Whole lines: half a secret is not found in a text.
		head := s.head[:bytes.LastIndexByte(s.head, '\n')+1]
		if _, lines, cut := strings.Cut(tail, "\n"); cut {
			tail = lines
		}
		return fmt.Sprintf("%s[%d bytes left out]\n%s", head, s.size-int64(len(head)+len(tail)), tail)
	case s.size > tailSize:
		return string(s.head[:s.size-tailSize]) + tail
	}
	return tail
}
