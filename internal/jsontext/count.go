package jsontext

// MaxValues is the number of values, including keys and elements, up to which readers
// accept a JSON document.
const MaxValues = 1 << 20

// MoreThan reports whether raw has more than most values, including keys and elements. It
// should be checked before decoding, since a document of many small values takes many times
// its size in memory when decoded. raw need not be valid JSON.
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
