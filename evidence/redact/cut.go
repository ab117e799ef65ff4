package redact

import (
	"bytes"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
)

// Cut is Bytes for a text of which parts were cut off before secrets were looked for: what
// before an ellipsis may be the beginning of a secret goes too. It leaves no mark and is
// not counted, for most often it is none.
func (s *Set) Cut(shortened string) (string, Found) {
	clean, found := s.clean(shortened)
	if s == nil || !strings.Contains(clean, text.Ellipsis) {
		return clean, found
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	parts := strings.Split(clean, text.Ellipsis)
	for i, part := range parts[:len(parts)-1] {
		var r redaction
		r.redact(&s.forms, []byte(part), false)
		parts[i] = string(r.out)
	}
	return strings.Join(parts, text.Ellipsis), found
}

// CutJSON is JSON for a document in whose strings parts were cut off, as [Set.Cut] has it;
// in strings of more than [jsontext.Piece] bytes it does not look for that.
func (s *Set) CutJSON(doc []byte) ([]byte, Found) {
	if s == nil || !bytes.Contains(doc, []byte(text.Ellipsis)) {
		return s.JSON(doc)
	}
	var out bytes.Buffer
	found, _ := s.writeJSON(&out, doc, s.Cut) // a buffer takes everything
	return out.Bytes(), found
}
