package canary

import (
	"encoding/base32"
	"encoding/base64"
)

// inBase64 is what of a value's base64 does not depend on the bytes around it, for each
// place in a group of three that the value may begin at, in both alphabets.
func inBase64(value string) []string {
	all := aligned(value, 3, 6, base64.RawStdEncoding.EncodeToString)
	return append(all, aligned(value, 3, 6, base64.RawURLEncoding.EncodeToString)...)
}

// inBase32 is the same for base32, whose groups are of five bytes.
func inBase32(value string) []string {
	return aligned(value, 5, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)
}

// aligned encodes value behind each number of other bytes that its group may begin
// with, and leaves out the characters that other bytes have a part in.
func aligned(value string, group, bits int, encode func([]byte) string) (texts []string) {
	for before := range group {
		text := encode(append(make([]byte, before), value...))
		first, behind := (before*8+bits-1)/bits, (before+len(value))*8/bits
		texts = append(texts, text[first:behind])
	}
	return texts
}
