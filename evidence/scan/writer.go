package scan

import "bytes"

// Writer returns a writer that scans everything written to it, across writes, and reports
// each canary once per encoding, with the escapes it was first found behind. It never fails
// and buffers only a few bytes.
func (s *Canaries) Writer(found func(Found)) *Writer {
	json, percent := decoder{mark: '\\', unescape: unescapeJSON}, decoder{mark: '%', unescape: unescapeURL}
	return &Writer{
		set: s, found: found, seen: map[Found]bool{},
		json: lane{decoder: json}, deeper: lane{decoder: json}, percent: lane{decoder: percent},
	}
}

// Writer searches the bytes as written and, in a lane per kind of escape, the unescaped
// bytes.
type Writer struct {
	set   *Canaries
	found func(Found)
	seen  map[Found]bool // keyed without escapes

	plain   states
	json    lane // of plain
	deeper  lane // of json: JSON within a JSON string
	percent lane // of json
}

// states holds the states of both automata.
type states struct{ cased, folded int32 }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	before := w.plain
	w.plain = w.scan(before, p, "")
	text, at := w.feed(&w.json, p, before, "json+")
	w.feed(&w.deeper, text, at, "json+")
	w.feed(&w.percent, text, at, "percent+")
	return len(p), nil
}

// Again makes w report each canary once more.
func (w *Writer) Again() { clear(w.seen) }

// lane searches a text with its escapes decoded. Before the first escape it is identical to
// its source and costs nothing.
type lane struct {
	decoder
	states
	parted bool
}

// feed passes a lane the next piece p of its source, whose states before p are given. It
// returns the next piece of the lane's own text, and the lane's states before that.
func (w *Writer) feed(l *lane, p []byte, before states, escape string) ([]byte, states) {
	if !l.parted {
		if bytes.IndexByte(p, l.mark) < 0 {
			return p, before
		}
		l.parted, l.states = true, before
	}
	text, at := l.decode(p), l.states
	l.states = w.scan(at, text, escape)
	return text, at
}

func (w *Writer) scan(at states, b []byte, escape string) states {
	cased, folded := &w.set.cased, &w.set.folded
	for _, c := range b {
		at.cased, at.folded = cased.Step(at.cased, c), folded.Step(at.folded, c)
		w.report(cased, at.cased, escape)
		w.report(folded, at.folded, escape)
	}
	return at
}

// report reports the canaries that end in a state, once each.
func (w *Writer) report(n *needles, at int32, escape string) {
	for _, i := range n.Ends(at) {
		if found := n.found[i]; !w.seen[found] {
			w.seen[found] = true
			w.found(Found{found.Canary, escape + found.Encoding})
		}
	}
}
