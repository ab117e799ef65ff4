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
	split       *splitter
	whole       bool // the response is not a stream
	said        bool
	usage       *Usage
}

// NewWatch returns a Watch for a response of an API. For an unknown API it reports nothing.
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

// begin determines the format once the first byte is known, and reports whether the response is a
// stream.
func (w *Watch) begin(chunk []byte) bool {
	start := bytes.TrimLeft(chunk, " \t\r\n")
	if len(start) == 0 {
		return false
	}
	split := splitterFor(w.contentType, start)
	if split.objects != nil && start[0] == '{' {
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

// splitter splits a response into JSON texts as it arrives: the data of server-sent events, a
// single object, or the objects in an array.
type splitter struct {
	events  sse.Scanner
	objects *jsontext.Scanner // nil for events

	held    []byte // the current event or object, up to maxEvent bytes
	spoiled bool   // the current one is larger
	left    bool   // a larger one was dropped
}

// splitterFor chooses by the content type, or else by the first byte: lines of events never begin
// with a bracket.
func splitterFor(contentType string, start []byte) *splitter {
	start = bytes.TrimLeft(start, " \t\r\n")
	if !sse.IsContentType(contentType) && len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		return &splitter{objects: &jsontext.Scanner{}}
	}
	return &splitter{}
}

// feed yields the texts that chunk completes. Each is valid until yield returns.
func (s *splitter) feed(chunk []byte, yield func(text []byte)) {
	for len(chunk) > 0 {
		scan := s.events.Scan
		if s.objects != nil {
			scan = s.objects.Scan
			if !s.objects.Within() {
				begin := bytes.IndexByte(chunk, '{')
				if begin < 0 {
					return
				}
				chunk = chunk[begin:]
			}
		}
		n, whole := scan(chunk)
		if s.spoiled = s.spoiled || len(s.held)+n > maxEvent; s.spoiled {
			s.held, s.left = s.held[:0], true
		} else {
			s.held = append(s.held, chunk[:n]...)
		}
		if chunk = chunk[n:]; whole {
			s.end(yield)
		}
	}
}

// end yields the last text if only its terminator is missing.
func (s *splitter) end(yield func(text []byte)) {
	text := s.held
	s.held, s.spoiled = s.held[:0], false
	if s.objects == nil {
		text = sse.Parse(text).Data()
	} else if s.objects.Within() {
		return
	}
	if len(text) > 0 {
		yield(text)
	}
}
