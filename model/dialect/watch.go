package dialect

import "bytes"

// Watch looks at an answer as it goes by. It holds no more than one event of a stream.
// It is not safe for concurrent use.
type Watch struct {
	name        Name
	contentType string
	read        func([]byte) (delta, error)
	split       splitter
	whole       bool // the answer is no stream
	said        bool
	usage       *Usage
}

// NewWatch watches an answer in the shape of the name. In one that it does not know it
// sees nothing.
func NewWatch(name Name, contentType string) *Watch {
	return &Watch{name: name, contentType: contentType, read: deltas[name]}
}

// Write takes what comes next of the answer's body. It never fails.
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

// begin chooses how to read, once there is something to go by, and tells whether what
// came is part of a stream.
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
	w.said = w.said || d.says()
	w.usage = merge(w.usage, d.usage)
}

// Said tells whether something of what the model answers has come: a word, a thought,
// or a tool that it asks for. An answer that is no stream says something at once.
func (w *Watch) Said() bool { return w.said }

// Usage is what the provider has told so far of the call's tokens; nil where that is
// nothing. For an answer that is no stream it needs the whole, which for a stream it
// does not look at.
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
