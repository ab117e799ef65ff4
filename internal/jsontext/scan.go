package jsontext

// Scanner finds the end of an object or array that arrives in pieces, without buffering. It
// looks only at brackets and quotes, and finds no end of other values. A token decoder
// would buffer a whole string, which may have hundreds of megabytes, and would not show
// which bytes can be forwarded before the value is complete.
type Scanner struct {
	depth           int
	inText, escaped bool
}

// Scan returns how many bytes of p belong to the value, and whether they complete it.
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
