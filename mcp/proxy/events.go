package proxy

import (
	"bufio"
	"bytes"
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
)

// event is a piece of an event stream: one event with the blank line that ends it,
// or a comment outside of any.
type event struct {
	raw  []byte // as it came
	data []byte // nil without a data line
	kind string // of the event; empty for "message"
	id   bool   // it has an id, so the stream can be resumed
	held *holding

	lines []line // of raw
}

// line is a line of an event: which part of its raw bytes, its field, and the
// field's value.
type line struct {
	start, end int // with its terminator
	field      string
	from, to   int // of the value
}

// release gives back the memory that the event counts for.
func (e event) release() { e.held.release() }

// isMessage says whether the event holds what clients read as a message.
func (e event) isMessage() bool { return (e.kind == "" || e.kind == "message") && len(e.data) > 0 }

// with is the event with other data, all other lines as they were.
func (e event) with(data []byte) []byte {
	var out []byte
	written := false
	for _, l := range e.lines {
		if l.field != "data" {
			out = append(out, e.raw[l.start:l.end]...)
			continue
		}
		if written {
			continue
		}
		written = true
		for part := range bytes.SplitSeq(data, []byte("\n")) {
			out = append(append(append(out, "data: "...), part...), '\n')
		}
	}
	return out
}

// eventReader reads an event stream; HTML standard, section 9.2.
type eventReader struct {
	in     *bufio.Reader
	max    int64
	memory *bounded.Budget

	begun bool // past a byte order mark
	wasCR bool // the last line ended in a CR whose LF had not come yet
}

func newEventReader(r io.Reader, max int64, memory *bounded.Budget) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 64<<10), max: max, memory: memory}
}

// next reads one piece, which the caller releases. At the end of the stream it
// fails with io.EOF where that comes between events, else with
// io.ErrUnexpectedEOF; what came of an unfinished event is no event.
func (r *eventReader) next() (event, error) {
	e := event{held: &holding{max: r.max + 1<<10, memory: r.memory}}
	for {
		l, err := r.line(e.held)
		if err == nil {
			err = e.held.note(lineCost)
		}
		if err != nil {
			if err == io.EOF && len(bytes.Trim(e.held.buf, "\r\n")) > 0 {
				err = io.ErrUnexpectedEOF
			}
			e.held.release()
			return event{}, err
		}
		if e.lines = append(e.lines, l); len(e.lines) > maxLines {
			e.held.release()
			return event{}, errTooLong
		}
		switch {
		case l.field == "" && l.from == l.to: // a blank line
			return e.finish()
		case l.field == "" && len(e.lines) == 1: // a comment outside of any event
			return e.finish()
		}
	}
}

// line reads one line into held. The field of a comment is empty, its value the
// whole line; that of a blank line is empty too, and has no value.
func (r *eventReader) line(held *holding) (line, error) {
	l := line{start: len(held.buf)}
	if err := r.skipLF(held, &l); err != nil {
		return l, err
	}
	text := len(held.buf)
	for {
		if _, err := r.in.Peek(1); err != nil {
			return l, err
		}
		buffered, _ := r.in.Peek(r.in.Buffered())
		end := bytes.IndexAny(buffered, "\r\n")
		take, done := len(buffered), false
		if end >= 0 {
			take, done = end+1, true
			if buffered[end] == '\r' {
				if r.wasCR = take == len(buffered); !r.wasCR && buffered[take] == '\n' {
					take++
				}
			}
		}
		if err := held.add(buffered[:take]); err != nil {
			return l, err
		}
		_, _ = r.in.Discard(take)
		if done {
			l.end = len(held.buf)
			l.parse(held.buf, text)
			return l, nil
		}
	}
}

// skipLF takes the LF of a CR LF whose CR ended the line before, and the mark that
// a stream may begin with.
func (r *eventReader) skipLF(held *holding, l *line) error {
	if r.wasCR {
		b, err := r.in.Peek(1)
		if err != nil {
			return err
		}
		r.wasCR = false
		if b[0] == '\n' {
			_, _ = r.in.Discard(1)
			if err := held.add([]byte("\n")); err != nil {
				return err
			}
		}
	}
	if r.begun {
		return nil
	}
	r.begun = true
	first, err := r.in.Peek(1)
	if err != nil || first[0] != bom[0] {
		return err
	}
	if mark, err := r.in.Peek(len(bom)); err != nil || string(mark) != bom {
		return nil // not enough, which the next read tells, or not the mark
	}
	_, _ = r.in.Discard(len(bom))
	return held.add([]byte(bom))
}

// maxLines is how many lines one event may have.
const maxLines = 1 << 18

// lineCost is more than what is held about one line.
const lineCost = 128

const bom = "\xef\xbb\xbf"

func (l *line) parse(buf []byte, from int) {
	text := bytes.TrimRight(buf[from:l.end], "\r\n")
	l.from, l.to = from, from+len(text)
	colon := bytes.IndexByte(text, ':')
	switch {
	case colon == 0, len(text) == 0:
		return
	case colon < 0:
		l.field, l.from = string(text[:min(len(text), maxField)]), l.to
		return
	}
	l.field = string(text[:min(colon, maxField)])
	l.from += colon + 1
	if l.from < l.to && buf[l.from] == ' ' {
		l.from++
	}
}

// maxField is longer than any field's name that means something.
const maxField = 16

// maxKind is how much is kept of an event's type.
const maxKind = 256

// finish reads the event's fields. A single data line, which is the rule, is not
// copied. The caller releases the event, unless there is an error.
func (e event) finish() (event, error) {
	e.raw = e.held.buf
	var data []line
	size := 0
	for _, l := range e.lines {
		switch l.field {
		case "event":
			e.kind = string(e.raw[l.from:min(l.to, l.from+maxKind)])
		case "id":
			e.id = true
		case "data":
			data = append(data, l)
			size += l.to - l.from + 1
		}
	}
	switch len(data) {
	case 0:
		return e, nil
	case 1:
		e.data = e.raw[data[0].from:data[0].to:data[0].to]
		return e, e.note(parseCost(e.data))
	}
	if err := e.note(int64(size)); err != nil {
		return event{}, err
	}
	e.data = make([]byte, 0, size)
	for i, l := range data {
		if i > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, e.raw[l.from:l.to]...)
	}
	return e, e.note(parseCost(e.data))
}

// note counts what is held beside raw. Where it fails it has released the event.
func (e event) note(bytes int64) error {
	err := e.held.note(bytes)
	if err != nil {
		e.release()
	}
	return err
}
