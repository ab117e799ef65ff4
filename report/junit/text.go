package junit

import (
	"cmp"
	"encoding/xml"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
)

// Bounds of strangers' texts. All is in results.json.
const (
	maxName  = 200      // columns of a name
	maxLine  = 400      // columns of a message
	maxText  = 16 << 10 // bytes of the reasons of a case
	maxTexts = 8 << 20  // bytes of all reasons
)

// nameOf is a name as the schema takes it: a line without blanks at its ends or side by
// side, and never empty.
func nameOf(s string) string {
	return cmp.Or(strings.Join(strings.Fields(text.Fit(lineOf(s), maxName)), " "), "unnamed")
}

// line is a text on one line.
func line(s string) string { return text.Fit(lineOf(s), maxLine) }

// lineOf is visible text of the beginning of s.
func lineOf(s string) string {
	beginning, _ := text.Beginning(s, utf8.UTFMax*maxLine)
	return text.Visible(beginning)
}

// budget is how many bytes of reasons there is room for.
type budget struct{ left int }

// take is s as a person can see all of it, as far as there is room.
func (b *budget) take(s string) content {
	if s == "" {
		return ""
	}
	room := min(maxText, b.left)
	beginning, more := text.Beginning(s, room)
	shown, hidden := text.Beginning(text.VisibleLines(beginning), room)
	b.left -= len(shown)
	if more || hidden {
		shown += "\n… results.json has more\n"
	}
	return content(shown)
}

// content is the text of an element. Its line breaks are written as they are, which
// encoding/xml does for tokens alone.
type content string

func (t content) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if !defence.EscapedXML {
		return e.EncodeElement(struct {
			Raw string `xml:",innerxml"`
		}{string(t)}, start)
	}
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	if err := e.EncodeToken(xml.CharData(t)); err != nil {
		return err
	}
	return e.EncodeToken(start.End())
}
