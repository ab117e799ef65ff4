package scan

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
)

// Names of encodings in evidence.
const (
	Exact  = "exact"
	Hex    = "hex"
	Base32 = "base32"
	Base64 = "base64"
)

// Form is an encoding of a value within other bytes.
type Form struct {
	Encoding string
	// Text is the part that does not depend on the adjacent bytes.
	Text string
	// Left and Right are the digits before and after Text, if the value shares a base64
	// digit with the adjacent bytes.
	Left, Right Digit
}

// InHex returns a value in lower-case hexadecimal.
func InHex(value string) Form { return Form{Encoding: Hex, Text: hex.EncodeToString([]byte(value))} }

// InBase64 returns a value in base64, standard alphabet, at each of the three alignments.
func InBase64(value string) []Form {
	return grouped(Base64, value, 3, 6, base64.RawStdEncoding.EncodeToString)
}

// InBase32 returns a value in base32, upper case, at each of the five alignments.
func InBase32(value string) []Form {
	return grouped(Base32, value, 5, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)
}

// grouped encodes a value at each alignment in an encoding that turns groups of group bytes
// into digits of bits bits.
func grouped(encoding, value string, group, bits int, encode func([]byte) string) (all []Form) {
	for before := range group {
		start, end := 8*before, 8*(before+len(value)) // in bits
		text := encode(append(make([]byte, before), value...))
		f := Form{Encoding: encoding, Text: text[(start+bits-1)/bits : end/bits]}
		if others := start % bits; others != 0 && encoding == Base64 {
			f.Left = digit(text[start/bits], 1<<(bits-others)-1)
		}
		if own := end % bits; own != 0 && encoding == Base64 {
			f.Right = digit(text[end/bits], byte(1<<bits-1)&^(1<<(bits-own)-1))
		}
		all = append(all, f)
	}
	return all
}

// Digit is a base64 digit of which the value determines some bits. The zero Digit stands
// for no digit.
type Digit struct{ mask, bits byte }

func digit(c, mask byte) Digit {
	value, _ := inBase64(c)
	return Digit{mask, value & mask}
}

// There reports whether the value shares a digit with the adjacent byte.
func (d Digit) There() bool { return d.mask != 0 }

// Fits reports whether c is such a digit, in either alphabet.
func (d Digit) Fits(c byte) bool {
	value, ok := inBase64(c)
	return ok && value&d.mask == d.bits
}

// IsDigit reports whether c is a base64 digit of either alphabet.
func IsDigit(c byte) bool {
	_, ok := inBase64(c)
	return ok
}

// StandardDigit maps base64 digits of the URL alphabet to the standard alphabet, and
// returns other bytes unchanged.
func StandardDigit(c byte) byte {
	switch c {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return c
}

// SmallLetter maps ASCII letters to lower case, and returns other bytes unchanged.
func SmallLetter(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// inBase64 returns the value of a base64 digit of either alphabet (RFC 4648, sections 4 and
// 5).
func inBase64(c byte) (byte, bool) {
	switch c = StandardDigit(c); {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26, true
	case c >= '0' && c <= '9':
		return c - '0' + 52, true
	case c == '+':
		return 62, true
	case c == '/':
		return 63, true
	}
	return 0, false
}
