package jsontext

// Scanner finds the end of an object or an array that comes in pieces, and holds nothing of
// it. It looks at brackets and quotes alone, and finds no end of what is neither. A decoder
// of tokens would hold a whole string, which may be a message's hundreds of megabytes, and
// would not say which bytes are to be passed on before the value is whole.
type Scanner struct {
	depth           int
	inText, escaped bool
}

// Scan returns how many bytes of p belong to the value, and whether it ends with them.
func (s *Scanner) Scan(p []byte) (end int, found bool) {
	for i, c := range p {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped, s.inText = c == '\\', c != '"'
		case c == '"':
			s.inText = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(p), false
}

// Within reports whether a value has begun and not ended.
func (s *Scanner) Within() bool { return s.depth > 0 }
