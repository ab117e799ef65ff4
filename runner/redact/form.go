package redact

import "iter"

// form is one way in which a secret is written.
type form struct {
	of   *value
	text []byte // window bytes at least
	// left and right are base64's digits before and behind text of which a part is the
	// secret's, and a part its neighbours'.
	left, right edge
	// wraps says that text may be broken into lines.
	wraps bool
}

// edge is a base64 digit that is known in some of its bits; without a mask, none.
type edge struct{ mask, bits byte }

// fits says whether c is such a digit.
func (e edge) fits(c byte) bool {
	digit, ok := digitOf(c)
	return ok && digit&e.mask == e.bits
}

// windows yields what the form can begin with; some more than once.
func (f *form) windows() iter.Seq[[window]byte] {
	return func(yield func([window]byte) bool) {
		if f.left.mask == 0 {
			f.broken(nil, yield)
			return
		}
		for c := range 128 {
			if f.left.fits(byte(c)) && !f.broken([]byte{byte(c)}, yield) {
				return
			}
		}
	}
}

// broken yields the windows of head and the form's text: in one line, and where lines
// wrap.
func (f *form) broken(head []byte, yield func([window]byte) bool) bool {
	whole := append(head, f.text[:window-len(head)]...)
	if !yield([window]byte(whole)) {
		return false
	}
	for at := 1; f.wraps && at < window; at++ {
		for _, ending := range []string{"\n", "\r\n"} {
			cut := append(append(append([]byte{}, whole[:at]...), ending...), whole[at:]...)
			if !yield([window]byte(cut[:window])) {
				return false
			}
		}
	}
	return true
}
