package scan

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// decoder decodes the escapes of a text that arrives in pieces. It keeps an incomplete
// escape at the end of a piece until the next. Invalid escapes are kept as they are.
type decoder struct {
	mark byte // with which an escape begins
	// unescape appends to out what the escape at the beginning of p stands for, and returns the
	// escape's length, or 0 if p does not hold all of it.
	unescape func(out, p []byte) ([]byte, int)
	open     []byte
}

func (d *decoder) decode(p []byte) []byte {
	p = append(d.open, p...)
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		i := bytes.IndexByte(p, d.mark)
		if i < 0 {
			i = len(p)
		}
		out = append(out, p[:i]...)
		if p = p[i:]; len(p) == 0 {
			break
		}
		length := 0
		if out, length = d.unescape(out, p); length == 0 {
			break
		}
		p = p[length:]
	}
	d.open = bytes.Clone(p)
	return out
}

const longestJSONEscape = len(`\u0041`)

// unescapeJSON decodes an escape of a JSON string.
func unescapeJSON(out, p []byte) ([]byte, int) {
	if len(p) < 2 || p[1] == 'u' && len(p) < longestJSONEscape {
		return out, 0
	}
	switch c := p[1]; c {
	case '"', '\\', '/':
		return append(out, c), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		if r, err := strconv.ParseUint(string(p[2:longestJSONEscape]), 16, 16); err == nil {
			return utf8.AppendRune(out, rune(r)), longestJSONEscape
		}
	}
	return append(out, p[0]), 1
}

// unescapeURL decodes an escape of a URL.
func unescapeURL(out, p []byte) ([]byte, int) {
	if len(p) < len("%41") {
		return out, 0
	}
	if c, err := strconv.ParseUint(string(p[1:3]), 16, 8); err == nil {
		return append(out, byte(c)), 3
	}
	return append(out, p[0]), 1
}
