package scan

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
)

// Encodings, by the names that evidence has them by.
const (
	Exact  = "exact"
	Hex    = "hex"
	Base32 = "base32"
	Base64 = "base64"
)

// Form is one way in which a value may stand between other bytes.
type Form struct {
	Encoding string
	// Text is the part that does not depend on the bytes beside the value.
	Text string
	// Left and Right stand before and behind Text where the value shares a digit of base64
	// with the bytes beside it.
	Left, Right Digit
}

// InHex returns a value in hexadecimal digits, in small letters.
func InHex(value string) Form { return Form{Encoding: Hex, Text: hex.EncodeToString([]byte(value))} }

// InBase64 returns a value in base64, in the standard alphabet, behind zero, one and two
// bytes of a group.
func InBase64(value string) []Form {
	return grouped(Base64, value, 3, 6, base64.RawStdEncoding.EncodeToString)
}

// InBase32 returns a value in base32, in capitals, behind zero to four bytes of a group.
func InBase32(value string) []Form {
	return grouped(Base32, value, 5, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)
}

// grouped encodes a value whose encoding makes digits of so many bits out of groups of so
// many bytes, behind each number of other bytes that a group may begin with.
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

// Digit is a digit of base64 of which some bits are known: the value's. The zero Digit is
// none.
type Digit struct{ mask, bits byte }

func digit(c, mask byte) Digit {
	value, _ := inBase64(c)
	return Digit{mask, value & mask}
}

// There reports whether the value shares a digit with what is beside it.
func (d Digit) There() bool { return d.mask != 0 }

// Fits reports whether c is such a digit, in either alphabet.
func (d Digit) Fits(c byte) bool {
	value, ok := inBase64(c)
	return ok && value&d.mask == d.bits
}

// IsDigit reports whether c is a digit of base64, of either alphabet.
func IsDigit(c byte) bool {
	_, ok := inBase64(c)
	return ok
}

// StandardDigit maps a digit of base64 in the alphabet for URLs to that of the standard
// one, and keeps all other bytes.
func StandardDigit(c byte) byte {
	switch c {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return c
}

// SmallLetter maps capital letters of ASCII to small ones, and keeps all other bytes.
func SmallLetter(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// inBase64 returns the value of a digit of base64, of either alphabet (RFC 4648, sections
// 4 and 5).
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
