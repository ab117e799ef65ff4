package jsontext

// MaxValues is how many values a JSON document may have before readers refuse it. Keys and elements
// count too.
const MaxValues = 1 << 20

// MoreThan reports whether raw has more than most values; keys and elements count too. Check it
// before decoding: decoded, a document of many small values takes many times its size in memory.
// Raw need not be valid JSON.
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
