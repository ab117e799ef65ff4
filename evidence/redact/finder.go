package redact

import (
	"iter"
	"slices"

	"github.com/waza-isolate/waza/evidence/scan"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// finder finds secrets in bytes, in all their encodings. It is immutable.
type finder struct {
	plain, wrapping texts
	left            [256]bool            // base64 digits that a form may share with preceding bytes
	begin           [1 << 16 / 64]uint64 // bit set of the byte pairs with which forms begin
}

// texts holds forms and the automaton that finds them.
type texts struct {
	forms []form
	*scan.Automaton
}

// match is an occurrence of a secret at b[start:end].
type match struct {
	start, end int
	of         *value
}

func newFinder(values map[string]*value) *finder {
	f := &finder{}
	for text, of := range values {
		for _, one := range formsOf(text) {
			one.of = of
			to := &f.plain
			if one.wraps {
				to = &f.wrapping
			}
			to.forms = append(to.forms, one)
			f.begins(one)
		}
	}
	f.plain.Automaton = scan.New(f.plain.needles(), nil)
	f.wrapping.Automaton = scan.New(f.wrapping.needles(), scan.StandardDigit)
	return f
}

func (t texts) needles() (all []string) {
	for _, one := range t.forms {
		all = append(all, one.Text)
	}
	return all
}

// begins adds the byte pairs with which a form begins.
func (f *finder) begins(one form) {
	firsts, seconds := []byte{one.Text[0]}, []byte{one.Text[1]}
	if one.wraps {
		firsts, seconds = inEitherAlphabet(firsts[0]), append(inEitherAlphabet(seconds[0]), '\r', '\n')
		for c := range f.left {
			f.left[c] = f.left[c] || one.Left.There() && one.Left.Fits(byte(c))
		}
	}
	for _, first := range firsts {
		for _, second := range seconds {
			f.begin[int(first)<<2|int(second>>6)] |= 1 << (second & 63)
		}
	}
}

// inEitherAlphabet returns a digit of base64's standard alphabet in both alphabets.
func inEitherAlphabet(c byte) (all []byte) {
	for _, other := range []byte{c, '-', '_'} {
		if scan.StandardDigit(other) == c {
			all = append(all, other)
		}
	}
	return all
}

// next returns the first index from i on where a form may begin, or len(b).
func (f *finder) next(b []byte, i int) int {
	for ; i+1 < len(b); i++ {
		if f.begin[int(b[i])<<2|int(b[i+1]>>6)]&(1<<(b[i+1]&63)) != 0 {
			return i
		}
	}
	return min(i, len(b)) // what follows the last byte is unknown
}

// maxBreak is the maximum length of a line break, \r
// .
const maxBreak = 2

func isBreak(c byte) bool { return c == '\n' || c == '\r' }

// pieces yields b in pieces, each with the secrets that begin in it. Unless last is set,
// more bytes will follow b, and a tail of b that may belong to a secret is not yielded.
func (f *finder) pieces(b []byte, last bool) iter.Seq2[[]byte, []match] {
	return func(yield func([]byte, []match) bool) {
		if f == nil {
			yield(b, nil)
			return
		}
		for size := 2 * jsontext.Piece; len(b) > 0; {
			size = min(size, len(b))
			found, done := f.find(b[:size], last && size == len(b))
			if done == 0 && size == len(b) || done > 0 && !yield(b[:done], found) {
				return
			}
			if b = b[done:]; done == 0 { // a form is longer than the piece
				size *= 2
			}
		}
	}
}

// in reports whether b contains a secret.
func (f *finder) in(b []byte) bool {
	for _, found := range f.pieces(b, true) {
		if len(found) > 0 {
			return true
		}
	}
	return false
}

// find returns the secrets that begin in b, sorted by position and then longest first, and
// how many bytes of b are done: all if last is set, otherwise those in which no further
// secret can begin.
func (f *finder) find(b []byte, last bool) (found []match, done int) {
	done = len(b)
	hold := func(from int) {
		if !last {
			done = min(done, from)
		}
	}
	var plain, wrapping int32
	breaks := 0
	for i := 0; i < len(b); i++ {
		if plain == 0 && wrapping == 0 {
			if i = f.next(b, i); i == len(b) {
				break
			}
		}
		plain = f.plain.Step(plain, b[i])
		for _, n := range f.plain.Ends(plain) {
			one := f.plain.forms[n]
			found = append(found, match{i + 1 - len(one.Text), i + 1, one.of})
		}
		if isBreak(b[i]) {
			if breaks++; breaks > maxBreak {
				wrapping = 0
			}
			continue
		}
		breaks = 0
		wrapping = f.wrapping.Step(wrapping, b[i])
		for _, n := range f.wrapping.Ends(wrapping) {
			m, whole, open := f.wrapping.forms[n].at(b, i+1)
			switch {
			case open && !last:
				hold(m.start)
			case whole:
				found = append(found, m)
			}
		}
	}
	hold(len(b) - f.plain.Depth(plain))
	hold(f.undecided(b, f.wrapping.Depth(wrapping)))
	found = slices.DeleteFunc(found, func(m match) bool { return m.start >= done })
	slices.SortFunc(found, func(x, y match) int {
		if x.start != y.start {
			return x.start - y.start
		}
		return y.end - x.end
	})
	return found, done
}

// undecided returns the index of the last digits of b that may belong to a secret,
// including the preceding digit if a secret may share it.
func (f *finder) undecided(b []byte, digits int) int {
	from := back(b, len(b), digits)
	if left := back(b, from, 1); left < from && f.left[b[left]] {
		return left
	}
	return from
}

// back returns the index of the last digits of b[:end], skipping line breaks.
func back(b []byte, end, digits int) int {
	at := end
	for i := end - 1; i >= 0 && digits > 0 && at-i <= maxBreak+1; i-- {
		if !isBreak(b[i]) {
			at = i
			digits--
		}
	}
	return at
}

// at returns the match of a form whose text ends at b[:end], including digits shared with
// adjacent bytes. whole reports whether those fit the secret; open reports that this
// depends on the bytes after b.
func (f form) at(b []byte, end int) (m match, whole, open bool) {
	m = match{back(b, end, len(f.Text)), end, f.of}
	if f.Left.There() {
		left := back(b, m.start, 1)
		if left == m.start || !f.Left.Fits(b[left]) {
			return m, false, false
		}
		m.start = left
	}
	if !f.Right.There() {
		return m, true, false
	}
	right := end
	for right < len(b) && right < end+maxBreak && isBreak(b[right]) {
		right++
	}
	switch {
	case right == len(b):
		return m, true, true
	case f.Right.Fits(b[right]):
		m.end = right + 1
	case scan.IsDigit(b[right]):
		return m, false, false
	}
	return m, true, false
}
