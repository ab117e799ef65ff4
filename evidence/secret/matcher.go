package secret

import (
	"slices"
	"strings"
)

// finder finds values in bytes, in all their forms. It is immutable.
type finder struct {
	forms []form
	*automaton
	left    [256]bool            // base64 digits that a form may share with preceding bytes
	begin   [1 << 16 / 64]uint64 // bit set of the pairs of bytes with which a form or an escape may begin
	maxGap  int                  // maximum number of blanks between two letters of a form
	longest int                  // the number of letters of the longest form
}

// maxGap is the maximum number of blanks between two letters of a value.
const maxGap = 16

func newFinder(values []string) *finder {
	f := &finder{maxGap: maxGap}
	var texts []string
	for of, value := range values {
		for _, one := range formsOf(of, value) {
			f.forms, texts = append(f.forms, one), append(texts, one.text)
			f.longest = max(f.longest, len(one.text))
			for _, gap := range one.gaps {
				f.maxGap = max(f.maxGap, gap)
			}
		}
	}
	f.automaton = newAutomaton(texts)
	var seconds [256][256]bool // second letters by folded first letter
	for _, one := range f.forms {
		seconds[fold(one.text[0])][fold(one.text[1])] = true
		for c := range f.left {
			f.left[c] = f.left[c] || one.left.there() && one.left.fits(byte(c))
		}
	}
	for first := range 256 {
		of := seconds[fold(byte(first))]
		any := first == '\\' || first == '%'
		begins := slices.Contains(of[:], true)
		for second := range 256 {
			c := byte(second)
			if any || begins && (of[fold(c)] || isBlank(c) || c == '\\' || c == '%') {
				f.begin[first<<2|second>>6] |= 1 << (c & 63)
			}
		}
	}
	return f
}

// next returns the first index from i on where a form or an escape may begin, or len(b).
func (f *finder) next(b []byte, i int) int {
	for ; i+1 < len(b); i++ {
		if f.begin[int(b[i])<<2|int(b[i+1]>>6)]&(1<<(b[i+1]&63)) != 0 {
			return i
		}
	}
	return min(i, len(b)) // what follows the last byte is unknown
}

// match is an occurrence of a value at source[start:end].
type match struct {
	start, end int
	*form
	escapes string // escapes around it, each followed by a plus
	spread  bool   // there are blanks between its letters
}

// letter is a byte of a text with escapes decoded, with its position in the source.
type letter struct {
	c          byte
	start, end int
	gap        int  // number of blanks before it
	lineBreak  bool // the blanks are one line break
}

// adjacent reports whether a base64 digit before the letter may belong to the same form. It may not if there
// are blanks other than a line break between them, so that a stream is not held back after each word.
func (l letter) adjacent() bool { return l.gap == 0 || l.lineBreak }

// matcher finds values in a source that arrives in pieces. It reads the source in several ways at the same
// time: as it is, and with escapes decoded, including nested ones.
type matcher struct {
	*finder
	found  func(match)
	at     int // in the source
	whole  *reading
	unused []*reading // for reuse
}

// maxNesting is the maximum number of nested escapes that are decoded. Only one of them may be a URL escape.
const maxNesting = 3

// newMatcher returns a matcher that calls found for each value. If quoted is set, the source is the inside of
// JSON strings, and is only read with its escapes decoded.
func newMatcher(f *finder, quoted bool, found func(match)) *matcher {
	m := &matcher{finder: f, found: found, whole: &reading{}}
	if quoted {
		m.whole.escape = jsonEscape
	}
	return m
}

// write reads the next part of the source.
func (m *matcher) write(b []byte) {
	for i := 0; i < len(b); i++ {
		if m.whole.idle() {
			from := i
			i = m.next(b, i)
			m.skip(m.whole, b[from:i], m.at+from)
			if i == len(b) {
				break
			}
		}
		l := letter{c: b[i], start: m.at + i, end: m.at + i + 1}
		if m.whole.escape != nil {
			m.decode(m.whole, l)
		} else {
			m.read(m.whole, l)
		}
	}
	m.at += len(b)
}

// end reports matches that depend on what follows, given that nothing follows.
func (m *matcher) end() {
	m.whole.each(func(r *reading) {
		for _, l := range r.held {
			m.read(r, l)
		}
		r.held = nil
		m.decide(r, letter{})
	})
}

// decided returns the offset before which no further match can begin.
func (m *matcher) decided() int {
	all := m.at
	m.whole.each(func(r *reading) {
		for _, one := range r.open {
			all = min(all, one.start)
		}
		if len(r.held) > 0 {
			all = min(all, r.held[0].start)
		}
		at := len(r.letters) - m.depthOf(r.state)
		next := letter{gap: r.gap, lineBreak: r.lineBreak}
		if at < len(r.letters) {
			next = r.letters[at]
		}
		if at > 0 && next.adjacent() && m.left[r.letters[at-1].c] {
			at--
		}
		if at < len(r.letters) {
			all = min(all, r.letters[at].start)
		}
	})
	return all
}

// reading is a text with certain escapes decoded. A nested reading begins where an escape begins, and ends
// when it is the same as the reading around it again.
type reading struct {
	escape  *escape // the innermost decoded escape; nil for the source as it is
	escapes string  // names of all decoded escapes
	nesting int
	held    []letter // letters of an incomplete escape
	inner   []*reading

	state     int32
	letters   []letter // the last letters: those that may begin a form, and at least one before
	gap       int      // number of blanks after the last letter
	lineBreak bool
	open      []match // matches that depend on the next letter
}

func (r *reading) each(do func(*reading)) {
	do(r)
	for _, in := range r.inner {
		in.each(do)
	}
}

// idle reports whether r is neither within a form nor within an escape.
func (r *reading) idle() bool {
	return r.state == 0 && len(r.inner) == 0 && len(r.held) == 0 && len(r.open) == 0
}

// skip reads bytes in which no form or escape begins.
func (m *matcher) skip(r *reading, b []byte, at int) {
	last := len(b) - 1
	for last >= 0 && isBlank(b[last]) {
		last--
	}
	if last >= 0 {
		r.letters = append(r.letters[:0], letter{c: b[last], start: at + last, end: at + last + 1})
		r.gap = 0
	}
	for _, c := range b[last+1:] {
		m.blank(r, c)
	}
}

// blank reads a blank. A form ends if there are too many blanks between two letters.
func (m *matcher) blank(r *reading, c byte) {
	r.lineBreak = (r.gap == 0 || r.gap == 1 && r.lineBreak) && (c == '\n' || c == '\r')
	if r.gap++; r.gap == m.maxGap+1 {
		m.decide(r, letter{})
		r.state, r.letters = 0, r.letters[:0]
	}
}

// decode passes the next letter of the surrounding text to a nested reading.
func (m *matcher) decode(r *reading, l letter) {
	if len(r.held) == 0 && l.c != r.escape.mark {
		m.read(r, l)
		return
	}
	r.held = append(r.held, l)
	for len(r.held) > 0 {
		length, text := 1, []byte(nil)
		if r.held[0].c == r.escape.mark {
			length, text = r.escape.decode(r.held)
		}
		switch {
		case length == 0:
			return
		case text == nil:
			m.read(r, r.held[0])
		}
		for _, c := range text {
			m.read(r, letter{c: c, start: r.held[0].start, end: r.held[length-1].end})
		}
		r.held = append(r.held[:0], r.held[length:]...)
	}
}

// read passes the next letter to a reading, and then to the readings inside it.
func (m *matcher) read(r *reading, l letter) {
	for _, e := range []*escape{jsonEscape, urlEscape} {
		m.begin(r, e, l)
	}
	m.step(r, l)
	for _, in := range r.inner {
		m.decode(in, l)
	}
	r.inner = slices.DeleteFunc(r.inner, func(in *reading) bool {
		same := in.same(r, m.depthOf(r.state))
		if same {
			m.unused = append(m.unused, in)
		}
		return same
	})
}

// begin starts a nested reading with escape e decoded, if the letter may start such an escape and there is no
// such reading yet.
func (m *matcher) begin(r *reading, e *escape, l letter) {
	switch {
	case l.c != e.mark, r.nesting == maxNesting, e == urlEscape && strings.Contains(r.escapes, e.name),
		slices.ContainsFunc(r.inner, func(in *reading) bool { return in.escape == e }):
		return
	}
	in := &reading{}
	if last := len(m.unused) - 1; last >= 0 {
		in, m.unused = m.unused[last], m.unused[:last]
	}
	may := r.letters[max(0, len(r.letters)-m.depthOf(r.state)-1):]
	*in = reading{
		escape: e, escapes: r.escapes + e.name + "+", nesting: r.nesting + 1,
		held: in.held[:0], inner: in.inner[:0],
		state: r.state, letters: append(in.letters[:0], may...), gap: r.gap, lineBreak: r.lineBreak, open: append(in.open[:0], r.open...),
	}
	r.inner = append(r.inner, in)
}

// same reports whether r will continue like the reading around it. The last depth letters of the latter may
// begin a form.
func (r *reading) same(around *reading, depth int) bool {
	if r.state != around.state || r.gap != around.gap || len(r.held)+len(r.inner)+len(r.open)+len(around.open) > 0 {
		return false
	}
	first := func(of []letter) int {
		if at := len(of) - depth - 1; at >= 0 {
			return of[at].start
		}
		return -1
	}
	return first(r.letters) == first(around.letters)
}

// step advances the automaton by a letter, and reports the values that end with it.
func (m *matcher) step(r *reading, l letter) {
	if isBlank(l.c) {
		m.blank(r, l.c)
		return
	}
	l.gap, l.lineBreak = r.gap, r.lineBreak
	r.gap = 0
	m.decide(r, l)
	r.state = m.stepFrom(r.state, l.c)
	r.letters = append(r.letters, l)
	for _, n := range m.endsAt(r.state) {
		m.ends(r, &m.forms[n])
	}
	if keep := m.depthOf(r.state) + 1; len(r.letters) > 2*keep+64 {
		r.letters = append(r.letters[:0], r.letters[len(r.letters)-keep:]...)
	}
}

// decide resolves the open matches, given the letter that follows them.
func (m *matcher) decide(r *reading, next letter) {
	for _, one := range r.open {
		_, isDigit := inBase64(next.c)
		switch {
		case one.right.fits(next.c):
			one.end = next.end
		case isDigit && next.gap == 0:
			continue
		}
		m.found(one)
	}
	r.open = r.open[:0]
}

// ends checks a form that ends with the last letter of a reading, and reports it if it matches.
func (m *matcher) ends(r *reading, f *form) {
	at := len(r.letters) - len(f.text)
	ok, spread := f.matches(r.letters[at:])
	if !ok {
		return
	}
	one := match{start: r.letters[at].start, end: r.letters[len(r.letters)-1].end, form: f, escapes: r.escapes, spread: spread}
	if f.left.there() {
		switch adjacent := r.letters[at].adjacent(); {
		case at > 0 && adjacent && f.left.fits(r.letters[at-1].c):
			one.start = r.letters[at-1].start
		case at == 0 || adjacent || len(f.text) < minLoose:
			return
		}
	}
	if f.right.there() {
		r.open = append(r.open, one)
		return
	}
	m.found(one)
}
