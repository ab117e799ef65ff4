package secret

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// escape is a way in which text is escaped.
type escape struct {
	name string
	mark byte // first byte of an escape
	// decode returns the length of the escape at the beginning of p and the bytes that it stands for. The
	// length is 0 if p ends within the escape, and 1 if there is no escape.
	decode func(p []letter) (length int, text []byte)
}

var (
	jsonEscape = &escape{"json", '\\', decodeJSON}
	urlEscape  = &escape{"percent", '%', decodeURL}
)

func decodeJSON(p []letter) (length int, text []byte) {
	if len(p) < 2 {
		return 0, nil
	}
	switch c := p[1].c; c {
	case '"', '\\', '/':
		return 2, []byte{c}
	case 'b':
		return 2, []byte{'\b'}
	case 'f':
		return 2, []byte{'\f'}
	case 'n':
		return 2, []byte{'\n'}
	case 'r':
		return 2, []byte{'\r'}
	case 't':
		return 2, []byte{'\t'}
	case 'u':
		return decodeUnit(p)
	}
	return 1, nil
}

// decodeUnit decodes an escaped UTF-16 unit; for a surrogate, together with the other half of the pair.
func decodeUnit(p []letter) (length int, text []byte) {
	const size = len(`\u0041`)
	first, ok := digits(p, 2, size)
	if !ok {
		return 1, nil
	}
	if len(p) < size {
		return 0, nil
	}
	if !utf16.IsSurrogate(first) {
		return size, utf8.AppendRune(nil, first)
	}
	for i, c := range []byte(`\u`) {
		if len(p) > size+i && p[size+i].c != c {
			return size, utf8.AppendRune(nil, utf8.RuneError)
		}
	}
	second, ok := digits(p, size+2, 2*size)
	if whole := len(p) >= 2*size; ok && !whole {
		return 0, nil
	}
	if both := utf16.DecodeRune(first, second); ok && both != utf8.RuneError {
		return 2 * size, utf8.AppendRune(nil, both)
	}
	return size, utf8.AppendRune(nil, utf8.RuneError)
}

func decodeURL(p []letter) (length int, text []byte) {
	const size = len(`%41`)
	value, ok := digits(p, 1, size)
	switch {
	case !ok:
		return 1, nil
	case len(p) < size:
		return 0, nil
	}
	return size, []byte{byte(value)}
}

// digits returns the value of the hexadecimal digits in p[from:to], as far as p has them. ok is false if one
// is not a digit.
func digits(p []letter, from, to int) (value rune, ok bool) {
	for _, l := range p[min(from, len(p)):min(to, len(p))] {
		d, err := strconv.ParseUint(string(rune(l.c)), 16, 8)
		if err != nil {
			return 0, false
		}
		value = value<<4 | rune(d)
	}
	return value, true
}
