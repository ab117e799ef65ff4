package redact

import (
	"encoding/base64"
	"strings"
)

// digitOf is the value of a digit of base64, of either alphabet.
func digitOf(c byte) (digit byte, ok bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26, true
	case c >= '0' && c <= '9':
		return c - '0' + 52, true
	case c == '+' || c == '-':
		return 62, true
	case c == '/' || c == '_':
		return 63, true
	}
	return 0, false
}

func isDigit(c byte) bool {
	_, ok := digitOf(c)
	return ok
}

// inBase64 is a value amid any other bytes, in base64. Three bytes are four digits, so
// it may begin at three places of these; at most of them a digit at its beginning and
// one at its end have bits of its neighbours too.
func inBase64(value string) (all []form) {
	for before := range 3 {
		start, end := 8*before, 8*(before+len(value)) // in bits
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), value...))
		f := form{wraps: true, text: []byte(encoded[(start+5)/6 : end/6])}
		if shared := start % 6; shared != 0 {
			f.left.mask = 1<<(6-shared) - 1
			f.left.bits, _ = digitOf(encoded[start/6])
		}
		if known := end % 6; known != 0 {
			f.right.mask = 63 &^ (1<<(6-known) - 1)
			f.right.bits, _ = digitOf(encoded[end/6])
		}
		for _, text := range inAlphabets(string(f.text)) {
			f.text = []byte(text)
			all = append(all, f)
		}
	}
	return all
}

// inAlphabets is base64 in both alphabets, and in the first as it stands in URLs, and
// in JSON that escapes slashes.
func inAlphabets(text string) []string {
	return distinct(
		text,
		strings.NewReplacer("+", "-", "/", "_").Replace(text),
		strings.NewReplacer("+", "%2B", "/", "%2F").Replace(text),
		strings.NewReplacer("+", "%2b", "/", "%2f").Replace(text),
		strings.ReplaceAll(text, "/", `\/`),
	)
}
