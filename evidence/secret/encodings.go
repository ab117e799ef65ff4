package secret

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Names of encodings in evidence.
const (
	Exact  = "exact"
	Hex    = "hex"
	Base32 = "base32"
	Base64 = "base64"
)

// form is an encoding of a value, reduced to the letters that it has in any context.
type form struct {
	of       int // index of the value
	encoding string
	// text is the part that does not depend on the adjacent bytes, without blanks.
	text string
	// gaps are the numbers of blanks before each letter of text, if they belong to the value.
	gaps []int
	// left and right are the digits before and after text, if the value shares a base64 digit
	// with the adjacent bytes.
	left, right digit
}

// minLoose is the minimum length of values that are also found in another case, with blanks between letters,
// and in base32. Shorter ones would match ordinary words too often.
const minLoose = 8

// formsOf returns the forms in which a value is searched for.
func formsOf(of int, value string) []form {
	all := []form{exactly(value), {encoding: Hex, text: hex.EncodeToString([]byte(value))}}
	if strings.Contains(value, " ") { // encoding in URLs and HTML forms
		all = append(all, exactly(strings.ReplaceAll(value, " ", "+")))
	}
	all = append(all, grouped(Base64, value, 3, 6, base64.RawStdEncoding.EncodeToString)...)
	if len(value) >= minLoose {
		all = append(all, grouped(Base32, value, 5, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)...)
	}
	for i := range all {
		all[i].of = of
	}
	return all
}

// exactly returns the form of the unencoded value.
func exactly(value string) form {
	f := form{encoding: Exact}
	var text []byte
	gap := 0
	for _, c := range []byte(value) {
		if isBlank(c) {
			gap++
			continue
		}
		text, f.gaps = append(text, c), append(f.gaps, gap)
		gap = 0
	}
	f.text = string(text)
	return f
}

// grouped encodes a value at each alignment in an encoding that turns groups of group bytes
// into digits of bits bits.
func grouped(encoding, value string, group, bits int, encode func([]byte) string) (all []form) {
	for before := range group {
		start, end := 8*before, 8*(before+len(value)) // in bits
		text := encode(append(make([]byte, before), value...))
		f := form{encoding: encoding, text: text[(start+bits-1)/bits : end/bits]}
		if others := start % bits; others != 0 && encoding == Base64 {
			f.left = digitOf(text[start/bits], 1<<(bits-others)-1)
		}
		if own := end % bits; own != 0 && encoding == Base64 {
			f.right = digitOf(text[end/bits], byte(1<<bits-1)&^(1<<(bits-own)-1))
		}
		all = append(all, f)
	}
	return all
}

// matches reports whether letters match the form. They must equal its text except for case and the base64
// alphabet. spread reports whether there are blanks that do not belong to the value.
func (f *form) matches(letters []letter) (ok, spread bool) {
	loose := len(f.text) >= minLoose
	for i, l := range letters {
		if want := f.text[i]; l.c != want {
			switch {
			case f.encoding == Base64 && standardDigit(l.c) != want,
				f.encoding == Exact && !(loose && smallLetter(l.c) == smallLetter(want)):
				return false, false
			}
		}
		own := 0
		if f.gaps != nil {
			own = f.gaps[i]
		}
		if i == 0 || l.gap == own {
			continue
		}
		if spread = true; !loose && !(f.encoding == Base64 && l.lineBreak) {
			return false, false
		}
	}
	return true, spread
}

// digit is a base64 digit of which a value determines some bits. The zero digit stands for no
// digit.
type digit struct{ mask, bits byte }

func digitOf(c, mask byte) digit {
	value, _ := inBase64(c)
	return digit{mask, value & mask}
}

// there reports whether the value shares a base64 digit with the adjacent byte.
func (d digit) there() bool { return d.mask != 0 }

// fits reports whether c is such a digit, in either alphabet.
func (d digit) fits(c byte) bool {
	value, ok := inBase64(c)
	return ok && value&d.mask == d.bits
}

// standardDigit maps base64 digits of the URL alphabet to the standard alphabet, and returns
// other bytes unchanged.
func standardDigit(c byte) byte {
	switch c {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return c
}

// smallLetter maps ASCII letters to lower case, and returns other bytes unchanged.
func smallLetter(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// fold maps bytes that some encoding does not distinguish to one of them.
func fold(c byte) byte { return smallLetter(standardDigit(c)) }

// isBlank reports whether c may stand between the letters of a value: white space, or the NUL
// that UTF-16 has between ASCII characters.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// inBase64 returns the value of a base64 digit of either alphabet (RFC 4648, sections 4 and
// 5).
func inBase64(c byte) (byte, bool) {
	switch c = standardDigit(c); {
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
