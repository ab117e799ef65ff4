package canary

// Writer scans what is written to it, in whatever pieces, and reports each canary once for
// each encoding, with the escapes it was first seen behind. It never fails, and keeps a few
// bytes.
func (s *Set) Writer(found func(Found)) *Writer {
	w := &Writer{set: s, found: found, seen: map[Found]bool{}}
	w.json.decoder, w.deeper.decoder, w.percent.decoder = &jsonDecoder{}, &jsonDecoder{}, &percentDecoder{}
	return w
}

// Writer has a lane for bytes as they are, and one for each escape they may be behind.
type Writer struct {
	set   *Set
	found func(Found)
	seen  map[Found]bool // without escapes

	plain   states
	json    lane // of plain
	deeper  lane // of json: JSON in a string of JSON
	percent lane // of json
}

// states are those of both automata.
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

// Again makes it report canaries once more that it reported before.
func (w *Writer) Again() { clear(w.seen) }

// lane is a text with escapes taken out. As long as the text it comes from has none, it
// is no other.
type lane struct {
	decoder
	states
	parted bool
}

// decoder takes escapes out of a text that comes in pieces. It keeps the beginning of an
// escape for the next one.
type decoder interface {
	// escapes says whether p begins one.
	escapes(p []byte) bool
	decode(p []byte) []byte
}

// feed has a lane read on with p, which the text that it comes from goes on with, from
// the states before it. It returns the same of the lane's own text.
func (w *Writer) feed(l *lane, p []byte, before states, escape string) ([]byte, states) {
	if !l.parted {
		if !l.escapes(p) {
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
		w.tell(cased, at.cased, escape)
		w.tell(folded, at.folded, escape)
	}
	return at
}

// tell reports what ends in a state, unless it was reported before.
func (w *Writer) tell(n *needles, at int32, escape string) {
	for _, i := range n.Ends(at) {
		if found := n.found[i]; !w.seen[found] {
			w.seen[found] = true
			w.found(Found{found.Canary, escape + found.Encoding})
		}
	}
}
