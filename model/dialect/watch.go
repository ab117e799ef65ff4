package dialect

import (
	"bytes"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/sse"
)

// Watch examines a response while it is forwarded. It holds at most one event of a stream,
// and is not safe for concurrent use.
type Watch struct {
	name        Name
	contentType string
	read        func([]byte) (delta, error)
	split       splitter
	whole       bool // the response is not a stream
	said        bool
	usage       *Usage
}

// NewWatch returns a Watch of an answer of an API; of an unknown API it sees nothing.
func NewWatch(name Name, contentType string) *Watch {
	return &Watch{name: name, contentType: contentType, read: apiOf(name).delta}
}

// Write takes the next bytes of the answer's body. It never fails.
func (w *Watch) Write(chunk []byte) (int, error) {
	if w.read == nil || w.whole {
		return len(chunk), nil
	}
	if w.split == nil && !w.begin(chunk) {
		return len(chunk), nil
	}
	w.split.feed(chunk, w.look)
	return len(chunk), nil
}

// begin chooses how to read once there is a byte to decide by, and reports whether the answer is a
// stream.
func (w *Watch) begin(chunk []byte) bool {
	start := bytes.TrimLeft(chunk, " \t\r\n")
	if len(start) == 0 {
		return false
	}
	split := splitterFor(w.contentType, start)
	if _, isJSON := split.(*elements); isJSON && start[0] == '{' {
		w.whole, w.said = true, true
		return false
	}
	w.split = split
	return true
}

func (w *Watch) look(event []byte) {
	if HasTooMany(event) {
		return
	}
	d, err := w.read(event)
	if err != nil {
		return
	}
	w.said = w.said || d.hasOutput()
	w.usage = merge(w.usage, d.usage)
}

// Said reports whether the model has produced output: text, reasoning, or a tool use. For a
// response that is not streamed this is the case from the start.
func (w *Watch) Said() bool { return w.said }

// Usage returns the usage reported so far, or nil. For a response that is not a stream it
// needs the whole body; for a stream it ignores it.
func (w *Watch) Usage(whole []byte) *Usage {
	if w.split != nil {
		w.split.end(w.look)
	}
	if !w.whole {
		return w.usage
	}
	response, err := ReadResponse(w.name, 0, w.contentType, whole)
	if err != nil {
		return nil
	}
	return response.Usage
}

// splitter splits an answer into JSON texts as it comes. What it yields is valid until yield
// returns.
type splitter interface {
	feed(chunk []byte, yield func(event []byte))
	// end yields the last text if only its terminator is missing.
	end(yield func(event []byte))
	// left reports whether a text was omitted because it is too long.
	left() bool
}

// splitterFor chooses by the content type, or else by the first byte: an event's line never
// begins with a bracket.
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

// part buffers an event or an element, unless that has more than maxEvent bytes.
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

// take returns the part, which is empty if it was too long, and begins the next. It is valid
// until keep is called.
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

// elements splits a JSON array into its elements that are objects. It also yields a single
// object.
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
