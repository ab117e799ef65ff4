package written

// Digit is a digit of which a part is known: the value's. The zero Digit is none.
type Digit struct {
	encoding   string
	mask, bits byte
}

func digit(encoding string, c, mask byte) Digit {
	value, _ := valueOf(encoding, c)
	return Digit{encoding, mask, value & mask}
}

// There says whether the value shares a digit with what is beside it.
func (d Digit) There() bool { return d.mask != 0 }

// Fits says whether c is such a digit, in any alphabet and case of the encoding.
func (d Digit) Fits(c byte) bool {
	value, ok := valueOf(d.encoding, c)
	return ok && value&d.mask == d.bits
}

// Like says whether c is a digit of the encoding at all.
func (d Digit) Like(c byte) bool {
	_, ok := valueOf(d.encoding, c)
	return ok
}

// IsDigit says whether c is a digit of an encoding whose digits values may share.
func IsDigit(c byte) bool {
	_, ok := inBase64(c) // base32's are among base64's
	return ok
}

func valueOf(encoding string, c byte) (byte, bool) {
	if encoding == Base32 {
		return inBase32(c)
	}
	return inBase64(c)
}

// inBase32 is the value of a digit of base32 in either case; RFC 4648, section 6.
func inBase32(c byte) (byte, bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a', true
	case c >= '2' && c <= '7':
		return c - '2' + 26, true
	}
	return 0, false
}

// inBase64 is the value of a digit of base64, of either alphabet; RFC 4648, sections 4
// and 5.
func inBase64(c byte) (byte, bool) {
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
