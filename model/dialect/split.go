package dialect

import (
	"bytes"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/sse"
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
	case sse.IsContentType(contentType):
		return &events{}
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		return &elements{}
	}
	return &events{}
}

// part is what is held of an event or an element. One above maxEvent is left out.
type part struct {
	held    []byte
	spoiled bool // it is too long
	lost    bool // one was
}

func (p *part) keep(piece []byte) {
	if p.spoiled = p.spoiled || len(p.held)+len(piece) > maxEvent; p.spoiled {
		p.held, p.lost = p.held[:0], true
		return
	}
	p.held = append(p.held, piece...)
}

// take returns what is held unless that is too long, and begins the next. It is valid until
// that is kept.
func (p *part) take() []byte {
	whole := p.held
	p.held, p.spoiled = p.held[:0], false
	return whole
}

func (p *part) left() bool { return p.lost }

// events splits server-sent events and gives the data of each.
type events struct {
	part
	scan sse.Scanner
}

func (e *events) feed(chunk []byte, yield func([]byte)) {
	for len(chunk) > 0 {
		n, whole := e.scan.Scan(chunk)
		e.keep(chunk[:n])
		if whole {
			e.end(yield)
		}
		chunk = chunk[n:]
	}
}

func (e *events) end(yield func([]byte)) {
	if data := sse.Parse(e.take()).Data(); data != nil {
		yield(data)
	}
}

// elements splits a JSON array into its elements, where they are objects. An object that
// stands alone is one too.
type elements struct {
	part
	scan jsontext.Scanner
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
		n, whole := e.scan.Scan(chunk)
		e.keep(chunk[:n])
		if !whole {
			return
		}
		if element := e.take(); len(element) > 0 {
			yield(element)
		}
		chunk = chunk[n:]
	}
}

func (e *elements) end(func([]byte)) {}
