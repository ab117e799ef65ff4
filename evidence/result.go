package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxHeld is the number of bytes of JSON that a [Result] holds in memory. Few real results
// are larger.
const maxHeld = 16 << 10

// Result is a tool's result: JSON, or nothing. A large result read from a file of the trial
// is not held in memory, only its position in the file.
type Result struct {
	raw json.RawMessage // nil if it is in a file
	at  *place          // nil if it is in memory
}

// NewResult returns a result held in memory, whatever its size.
func NewResult(raw json.RawMessage) Result { return Result{raw: raw} }

// IsZero reports whether there is no result.
func (r Result) IsZero() bool { return len(r.raw) == 0 && r.at == nil }

// Equal reports whether both hold the same bytes, or are the same part of a file.
func (r Result) Equal(other Result) bool {
	if r.at == nil || other.at == nil {
		return r.at == other.at && bytes.Equal(r.raw, other.raw)
	}
	return *r.at == *other.at
}

// Raw returns the whole result. If it is in a file, each call reads it again.
func (r Result) Raw() (json.RawMessage, error) {
	if r.at == nil {
		return r.raw, nil
	}
	return r.at.read()
}

// MarshalJSON encodes the whole result.
func (r Result) MarshalJSON() ([]byte, error) {
	raw, err := r.Raw()
	if err != nil || raw == nil {
		return []byte("null"), err
	}
	return raw, nil
}

// UnmarshalJSON stores a copy of raw.
func (r *Result) UnmarshalJSON(raw []byte) error {
	*r = Result{raw: bytes.Clone(raw)}
	return nil
}

// line is the position of a record: a line in a file of a trial.
type line struct {
	dir    Dir
	file   string
	offset int64
	size   int
}

// place is part of a line: bytes of a frame's message or of the line itself.
type place struct {
	line
	from, to int
}

// part returns raw as a Result. raw must be part of whole, which was read from line l. A
// large raw is left in the file.
func (l *line) part(whole, raw []byte) Result {
	if l != nil && len(raw) > maxHeld {
		if from := bytes.Index(whole, raw); from >= 0 {
			return Result{at: &place{*l, from, from + len(raw)}}
		}
	}
	return Result{raw: bytes.Clone(raw)}
}

func (p *place) read() (_ json.RawMessage, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: cannot read the result at byte %d again: %w", filepath.Join(string(p.dir), p.file), p.offset, err)
		}
	}()
	file, err := Open(string(p.dir), p.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	whole := make([]byte, p.size)
	if _, err := file.ReadAt(whole, p.offset); err != nil {
		return nil, err
	}
	if holdsFrames(p.file) {
		var f Frame
		if err := f.UnmarshalJSON(whole); err != nil {
			return nil, err
		}
		whole = f.Raw
	}
	if p.to > len(whole) || !jsontext.Valid(whole[p.from:p.to]) {
		return nil, errors.New("the file was changed meanwhile")
	}
	return slices.Clip(whole[p.from:p.to]), nil
}

// located is a record that remembers where it was read.
type located interface {
	readAt(at line, text []byte)
}

// readAt implements located.
func (f *Frame) readAt(at line, _ []byte) { f.line = &at }

// Result returns raw, which must be part of f.Raw, as the result of a call.
func (f Frame) Result(raw json.RawMessage) Result { return f.line.part(f.Raw, raw) }

// readAt implements located.
func (c *Call) readAt(at line, text []byte) { c.Result = at.part(text, c.Result.raw) }
