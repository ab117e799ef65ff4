package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Ellipsis stands where a text was cut off.
const Ellipsis = "…"

// Shorten is the beginning of text, most bytes at most, with an [Ellipsis] behind it where
// there is more. It ends with a whole character, so that [Set.Cut] knows what it may be
// the beginning of.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + Ellipsis
}

// Cut is Bytes for a text of which parts were cut off before secrets were looked for: what
// before an [Ellipsis] may be the beginning of a secret goes too. It leaves no mark and is
// not counted, for most often it is none.
func (s *Set) Cut(text string) (string, Found) {
	text, found := s.clean(text)
	if s == nil || !strings.Contains(text, Ellipsis) {
		return text, found
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	parts := strings.Split(text, Ellipsis)
	for i, part := range parts[:len(parts)-1] {
		var r redaction
		r.redact(&s.forms, []byte(part), false)
		parts[i] = string(r.out)
	}
	return strings.Join(parts, Ellipsis), found
}

// CutJSON is JSON for a document in whose strings parts were cut off, as [Set.Cut] has it;
// in strings of more than [jsontext.Piece] bytes it does not look for that.
func (s *Set) CutJSON(doc []byte) ([]byte, Found) {
	if s == nil || !bytes.Contains(doc, []byte(Ellipsis)) {
		return s.JSON(doc)
	}
	var out bytes.Buffer
	found, _ := s.writeJSON(&out, doc, s.Cut) // a buffer takes everything
	return out.Bytes(), found
}
