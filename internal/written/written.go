// Package written encodes a value in the ways in which it may appear between other bytes:
// as it is, in hexadecimal, base32 and base64. It is for those who look for values, and
// knows no escapes: what they do about these differs.
package written

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Encodings, by the names that evidence has them by.
const (
	Exact  = "exact"
	Hex    = "hex"
	Base32 = "base32"
	Base64 = "base64"
)

// Writing is one way in which a value is written.
type Writing struct {
	Encoding string
	// Text is what of it does not depend on the bytes beside the value.
	Text string
	// Left and Right stand before and behind Text where the value shares a digit with the
	// bytes beside it.
	Left, Right Digit
}

// In lists all writings of a value: of hexadecimal digits those in small letters, of
// base32 those in capitals, of base64 those in both alphabets.
func In(value string) []Writing {
	all := []Writing{{Encoding: Exact, Text: value}, {Encoding: Hex, Text: hex.EncodeToString([]byte(value))}}
	all = append(all, grouped(Base32, value, 5, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)...)
	all = append(all, grouped(Base64, value, 3, 6, base64.RawStdEncoding.EncodeToString)...)
	for _, w := range all {
		if text := strings.NewReplacer("+", "-", "/", "_").Replace(w.Text); w.Encoding == Base64 && text != w.Text {
			w.Text = text
			all = append(all, w)
		}
	}
	return all
}

// grouped is a value in an encoding that makes digits of so many bits out of groups of so
// many bytes, behind each number of other bytes that a group may begin with.
func grouped(encoding, value string, group, bits int, encode func([]byte) string) (all []Writing) {
	for before := range group {
		start, end := 8*before, 8*(before+len(value)) // in bits
		text := encode(append(make([]byte, before), value...))
		w := Writing{Encoding: encoding, Text: text[(start+bits-1)/bits : end/bits]}
		if others := start % bits; others != 0 {
			w.Left = digit(encoding, text[start/bits], 1<<(bits-others)-1)
		}
		if own := end % bits; own != 0 {
			w.Right = digit(encoding, text[end/bits], byte(1<<bits-1)&^(1<<(bits-own)-1))
		}
		all = append(all, w)
	}
	return all
}
