package redact

import (
	"encoding/binary"

	"github.com/waza-isolate/waza/internal/written"
)

const (
	// window is how many bytes tell where a form may begin. No form is shorter.
	window = 4
	// filterBits is the logarithm of a filter's size, which is 32 KiB. Fifty secrets in
	// all their forms set a hundredth of it.
	filterBits = 18
)

// index finds forms in bytes. Most places of a text are passed over by a look at its
// filter; at the others it walks down trees, so that what forms begin with alike is
// looked at once.
type index struct {
	filter *[1 << filterBits / 64]uint64 // of the windows that forms begin with; nil where there are none
	begins map[uint32]bool               // what windows begin with; see short
	plain  tree
	wraps  tree // forms that may be broken into lines
	shared tree // those of them that begin with a shared digit, from behind it
}

// add takes in all forms of a value.
func (x *index) add(of *value, text string) {
	if x.filter == nil {
		x.filter, x.begins = new([1 << filterBits / 64]uint64), map[uint32]bool{}
	}
	for _, f := range formsOf(text) {
		f.of = of
		x.treeOf(f).insert(f, 0)
		for key := range f.windows() {
			bit := filterBit(binary.LittleEndian.Uint32(key[:]))
			x.filter[bit/64] |= 1 << (bit % 64)
			for n := 1; n < window; n++ {
				x.begins[short(key[:n])] = true
			}
		}
	}
}

func (x *index) treeOf(f *form) *tree {
	switch {
	case !f.wraps:
		return &x.plain
	case !f.left.There():
		return &x.wraps
	}
	return &x.shared
}

// filterBit is the bit of the filter that a window sets.
func filterBit(word uint32) uint32 { return word * 0x9e3779b1 >> (32 - filterBits) }

// short is up to three bytes and their number.
func short(b []byte) uint32 {
	key := uint32(len(b)) << 24
	for i, c := range b {
		key |= uint32(c) << (8 * i)
	}
	return key
}

// next is the first place of b at which a form may begin, or the length of b.
func (x *index) next(b []byte) int {
	if x.filter == nil {
		return len(b)
	}
	i := 0
	for filter := x.filter; i+window <= len(b); i++ {
		bit := filterBit(binary.LittleEndian.Uint32(b[i:]))
		if filter[bit/64]&(1<<(bit%64)) != 0 {
			return i
		}
	}
	for ; i < len(b); i++ {
		if x.begins[short(b[i:])] {
			return i
		}
	}
	return len(b)
}

// longestAt is the longest form that b begins with, nil for none, and whether b may
// be the beginning of a longer one.
func (x *index) longestAt(b []byte) (longest *form, length int, open bool) {
	if len(b) < window {
		return nil, 0, x.begins[short(b)]
	}
	w := walk{b: b}
	w.down(&x.plain, 0, false)
	w.down(&x.wraps, 0, true)
	if written.IsDigit(b[0]) {
		w.down(&x.shared, 1, true)
	}
	return w.longest, w.length, w.open
}

// in says whether a form is in b.
func (x *index) in(b []byte) bool {
	for i := x.next(b); i < len(b); i += 1 + x.next(b[i+1:]) {
		if f, _, _ := x.longestAt(b[i:]); f != nil {
			return true
		}
	}
	return false
}
