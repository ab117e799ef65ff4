package dialect

// maxValues is how many values a JSON text has at most that is decoded: one of two bytes
// takes a hundred in memory.
const maxValues = 1 << 19

// HasTooMany says whether a JSON text has so many values that it is not decoded. It
// counts what comes before each but the first of a text: commas, and the brackets that
// open lists and objects.
func HasTooMany(text []byte) bool {
	count, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == ',', c == '[', c == '{':
			count++
		}
	}
	return count > maxValues
}
