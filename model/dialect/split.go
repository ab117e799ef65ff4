package dialect

import (
	"bytes"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// splitter parts an answer into the JSON texts that it is made of, as it comes. What it
// gives is valid until feed returns.
type splitter interface {
	feed(chunk []byte, yield func(event []byte))
	// end gives what was whole but for its terminator.
	end(yield func(event []byte))
	// left tells whether something was left out for its length.
	left() bool
}

// splitterFor chooses by the content type, and where that says nothing by the first
// bytes: an event's line never begins with a bracket.
func splitterFor(contentType string, start []byte) splitter {
	start = bytes.TrimLeft(start, " \t\r\n")
	switch {
	case strings.HasPrefix(strings.ToLower(contentType), "text/event-stream"):
		return &events{}
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		return &elements{}
	}
	return &events{}
}

// events parts server-sent events (HTML standard, section 9.2) and gives the data of
// each. An event above maxEvent is left out.
type events struct {
	line    []byte // the one that is not ended yet
	data    []byte // of the event
	some    bool   // the event has data
	spoiled bool   // the event is too long
	lost    bool   // an event was
	wasCR   bool   // a line feed that comes next belongs to the last line's end
}

func (e *events) feed(chunk []byte, yield func([]byte)) {
	for len(chunk) > 0 {
		if e.wasCR && chunk[0] == '\n' {
			chunk = chunk[1:]
		}
		e.wasCR = false
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			e.keep(chunk)
			return
		}
		e.keep(chunk[:end])
		e.endLine(yield)
		e.wasCR = chunk[end] == '\r'
		chunk = chunk[end+1:]
	}
}

// keep adds to the line. One that is too long keeps a byte, so that it is not blank.
func (e *events) keep(part []byte) {
	if len(e.line)+len(part)+len(e.data) > maxEvent {
		e.spoiled, e.lost = true, true
		e.line = append(e.line[:0], ':')
		return
	}
	e.line = append(e.line, part...)
}

func (e *events) endLine(yield func([]byte)) {
	if len(e.line) == 0 {
		e.end(yield)
		return
	}
	if value, ok := bytes.CutPrefix(bytes.TrimPrefix(e.line, []byte(bom)), []byte("data:")); ok {
		if e.some {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte{' '})...)
		e.some = true
	}
	e.line = e.line[:0]
}

func (e *events) end(yield func([]byte)) {
	if len(e.line) > 0 {
		e.endLine(yield)
	}
	if e.some && !e.spoiled {
		yield(e.data)
	}
	e.data, e.some, e.spoiled = e.data[:0], false, false
}

func (e *events) left() bool { return e.lost }

const bom = "\xef\xbb\xbf"

// elements parts a JSON array into its elements, where they are objects. An object that
// stands alone is one too. Those above maxEvent are left out.
type elements struct {
	element []byte
	scan    jsontext.Scanner
	spoiled bool // the element is too long
	lost    bool // an element was
}

func (e *elements) feed(chunk []byte, yield func([]byte)) {
	for {
		if !e.scan.Within() {
			begin := bytes.IndexByte(chunk, '{')
			if begin < 0 {
				return
			}
			chunk = chunk[begin:]
		}
		end, found := e.scan.Scan(chunk)
		e.keep(chunk[:end])
		if !found {
			return
		}
		if !e.spoiled {
			yield(e.element)
		}
		e.element, e.spoiled = e.element[:0], false
		chunk = chunk[end:]
	}
}

func (e *elements) keep(part []byte) {
	if len(e.element)+len(part) > maxEvent {
		e.spoiled, e.lost = true, true
		return
	}
	e.element = append(e.element, part...)
}

func (e *elements) end(func([]byte)) {}

func (e *elements) left() bool { return e.lost }
