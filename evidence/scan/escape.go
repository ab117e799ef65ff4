package scan

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// jsonDecoder decodes the escapes of JSON strings anywhere in a text. Invalid escapes are
// kept.
type jsonDecoder struct{ open []byte }

const longestJSONEscape = len(`\u0041`)

func (*jsonDecoder) escapes(p []byte) bool { return bytes.IndexByte(p, '\\') >= 0 }

func (d *jsonDecoder) decode(p []byte) []byte {
	p = append(d.open, p...)
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\\')
		if i < 0 {
			i = len(p)
		}
		out = append(out, p[:i]...)
		if p = p[i:]; len(p) == 0 {
			break
		}
		if len(p) < 2 || p[1] == 'u' && len(p) < longestJSONEscape {
			break
		}
		text, length := jsonEscape(p)
		out = append(out, text...)
		p = p[length:]
	}
	d.open = bytes.Clone(p)
	return out
}

// jsonEscape decodes the escape at the beginning of p. It returns the text and the length
// of the escape.
func jsonEscape(p []byte) (text []byte, length int) {
	switch c := p[1]; c {
	case '"', '\\', '/':
		return p[1:2], 2
	case 'b':
		return []byte{'\b'}, 2
	case 'f':
		return []byte{'\f'}, 2
	case 'n':
		return []byte{'\n'}, 2
	case 'r':
		return []byte{'\r'}, 2
	case 't':
		return []byte{'\t'}, 2
	case 'u':
		if r, err := strconv.ParseUint(string(p[2:longestJSONEscape]), 16, 16); err == nil {
			return utf8.AppendRune(nil, rune(r)), longestJSONEscape
		}
	}
	return p[:1], 1
}

// percentDecoder decodes URL escapes in a text. Invalid escapes are kept.
type percentDecoder struct{ open []byte }

func (*percentDecoder) escapes(p []byte) bool { return bytes.IndexByte(p, '%') >= 0 }

func (d *percentDecoder) decode(p []byte) []byte {
	p = append(d.open, p...)
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		i := bytes.IndexByte(p, '%')
		if i < 0 {
			i = len(p)
		}
		out = append(out, p[:i]...)
		if p = p[i:]; len(p) < 3 {
			break
		}
		if c, err := strconv.ParseUint(string(p[1:3]), 16, 8); err == nil {
			out, p = append(out, byte(c)), p[3:]
		} else {
			out, p = append(out, '%'), p[1:]
		}
	}
	d.open = bytes.Clone(p)
	return out
}
