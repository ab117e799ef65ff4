package evidence

import (
	"encoding/base64"
	"sync/atomic"
	"unicode/utf8"
)

// Share is how many bytes of a trial's evidence one author may cause: the agent, or one
// server. It is safe for concurrent use. The nil Share has no end.
type Share struct {
	max  int64
	used atomic.Int64
	over atomic.Bool
}

// NewShare returns a share of max bytes.
func NewShare(max int64) *Share { return &Share{max: max} }

// Take takes n bytes where there are so many left, and reports whether there were.
func (s *Share) Take(n int64) bool {
	if s == nil {
		return true
	}
	for {
		used := s.used.Load()
		if n > s.max-used {
			s.over.Store(true)
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Over reports whether more was wanted than there was.
func (s *Share) Over() bool { return s != nil && s.over.Load() }

// Max returns how many bytes the share has; 0 where it has no end.
func (s *Share) Max() int64 {
	if s == nil {
		return 0
	}
	return s.max
}

// Used returns how many bytes of the share are taken.
func (s *Share) Used() int64 {
	if s == nil {
		return 0
	}
	return s.used.Load()
}

// frameCost is more than a frame and its call take beside the message, and modelCost more
// than a model's call takes beside request and response.
const (
	frameCost = 1 << 10
	modelCost = 1 << 10
)

// CostOf returns how much room a message takes at most: in its frame, and then in its call,
// in the results and in the report, which are made of that.
func CostOf(message []byte) int64 { return 2*(quoted(message)+int64(len(message))) + frameCost }

// ModelCost returns how much room a call of a model takes at most.
func ModelCost(c ModelCall) int64 { return quoted(c.Request) + quoted(c.Response) + modelCost }

// quoted is how long text is at most as a frame has it.
func quoted(text []byte) int64 {
	if !utf8.Valid(text) {
		return int64(base64.StdEncoding.EncodedLen(len(text)))
	}
	n := int64(len(text))
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5 // as \u0000
		}
	}
	return n
}
