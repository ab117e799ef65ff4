package redact

import (
	"iter"

	"github.com/waza-isolate/waza/internal/written"
)

// form is one way in which a secret is written.
type form struct {
	of   *value
	text []byte // window bytes at least
	// left and right are digits before and behind text of which a part is the secret's, and
	// a part its neighbours'.
	left, right written.Digit
	// wraps says that text may be broken into lines.
	wraps bool
}

// windows yields what the form can begin with; some more than once.
func (f *form) windows() iter.Seq[[window]byte] {
	return func(yield func([window]byte) bool) {
		if !f.left.There() {
			f.broken(nil, yield)
			return
		}
		for c := range 128 {
			if f.left.Fits(byte(c)) && !f.broken([]byte{byte(c)}, yield) {
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
