package jsontext

// MaxValues is how many values a document may have that anybody reads, keys and elements
// counted.
const MaxValues = 1 << 20

// MoreThan says whether raw, which need not be JSON, has more than so many values, keys
// and elements counted. What else reads it holds many times the text of one that is made
// of nothing else.
func MoreThan(most int, raw []byte) bool {
	values, quoted := 0, false
	for i := 0; i < len(raw) && values <= most; i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' || c == '{' || c == '[':
			values++
		}
	}
	return values > most
}
