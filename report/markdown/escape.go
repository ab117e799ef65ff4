package markdown

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
)

// maxName is how many columns of a name are shown.
const maxName = 80

// code is a stranger's text of one line.
func code(s string) string {
	beginning, _ := text.Beginning(s, utf8.UTFMax*maxName)
	return "<code>" + escaped(text.Fit(text.Visible(beginning), maxName)) + "</code>"
}

// pre is a stranger's text of several lines, of so many bytes at most before it is
// escaped. It begins and ends its lines.
func pre(s string, most int) string {
	beginning, more := text.Beginning(strings.TrimSpace(s), most)
	shown, hidden := text.Beginning(text.VisibleLines(beginning), most)
	if more || hidden {
		shown += " …"
	}
	return "<pre>" + escaped(shown) + "</pre>\n"
}

// harmless are characters of ASCII that mean nothing to Markdown, HTML or GitHub within a
// line, beside letters and digits.
const harmless = " \n,;.-()/+=%?'\""

// escaped is s for code in Markdown and in blocks of HTML. A character reference is text
// to both, never a mark. What looks like an address has none of its marks as they are, and
// behind each @ the text is broken, since addresses of mail are looked for in text.
func escaped(s string) string {
	if !defence.EscapedMarkdown {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == '@':
			out.WriteString("&#64;<!-- -->")
		case r >= utf8.RuneSelf, isWord(r), strings.ContainsRune(harmless, r) && !endsWWW(s[:i+1]), isMarkOfProse(s, i):
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "&#%d;", r)
		}
	}
	return out.String()
}

func isWord(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func endsWWW(s string) bool { return strings.HasSuffix(s, "w.") || strings.HasSuffix(s, "W.") }

// isMarkOfProse says whether the character at i stands where it marks nothing, as it often
// does: an underscore within a word, or a colon with a space behind it.
func isMarkOfProse(s string, i int) bool {
	switch {
	case i == 0 || i+1 == len(s) || !isWord(rune(s[i-1])):
		return false
	case s[i] == '_':
		return isWord(rune(s[i+1]))
	}
	return s[i] == ':' && s[i+1] == ' '
}
