package proxy

import (
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
)

// newStderrSink takes what all processes of one server write to their stderr, up to a
// limit, of which full is told once.
func newStderrSink(out io.Writer, limit int64, full func()) *bounded.Head {
	if out == nil {
		out = io.Discard
	}
	if !defence.BoundedStderr {
		limit = 1 << 30
	}
	return &bounded.Head{W: out, Limit: limit, Full: full}
}

// newStderr is the stderr of one process, which goes to the server's sink. Its ends are kept
// for messages.
func newStderr(sink *bounded.Head) *bounded.Ends {
	return &bounded.Ends{Head: 1 << 10, Tail: 2 << 10, W: sink}
}
