package jsontext

import (
	"bytes"
	"slices"
)

// Depth returns the nesting depth of objects and arrays in a valid value.
func Depth(value []byte) int {
	_, deepest := nested(value)
	return deepest
}

// Indent indents compact JSON by two spaces like json.Indent, but keeps the values of the
// keys in whole on one line, since json.Indent can turn a few kilobytes of deeply nested
// JSON into megabytes.
func Indent(compact []byte, whole ...string) []byte {
	l := layout{}
	for rest := compact; len(rest) > 0; {
		n := 1
		switch c := rest[0]; c {
		case '{', '[':
			n = l.open(rest)
		case '}', ']':
			l.depth--
			l.line()
			l.WriteByte(c)
		case ',':
			l.WriteByte(c)
			l.line()
		case ':':
			l.WriteString(": ")
		case '"':
			n = StringLength(rest)
			if key := rest[:n]; n < len(rest) && rest[n] == ':' && slices.Contains(whole, Word(key)) {
				l.Write(key)
				l.WriteString(": ")
				value := rest[n+1:]
				rest, n = value, valueLength(value)
			}
			l.Write(rest[:n])
		default:
			n = valueLength(rest)
			l.Write(rest[:n])
		}
		rest = rest[n:]
	}
	return l.Bytes()
}

// layout is the document indented so far.
type layout struct {
	bytes.Buffer
	depth int
}

// open starts an object or array, and returns the number of bytes consumed: an empty one is
// written whole.
func (l *layout) open(rest []byte) int {
	if len(rest) > 1 && (rest[1] == '}' || rest[1] == ']') {
		l.Write(rest[:2])
		return 2
	}
	l.WriteByte(rest[0])
	l.depth++
	l.line()
	return 1
}

func (l *layout) line() {
	l.WriteByte('\n')
	for range l.depth {
		l.WriteString("  ")
	}
}
