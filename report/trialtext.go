package report

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Text is an untrusted text in fully visible form.
type Text struct {
	Text string
	JSON bool  // indented, with opening brackets at the ends of lines
	Left int64 // number of bytes not shown
	// Markdown is the text rendered as Markdown; empty if it is shown as plain text.
	Markdown template.HTML
	// Unlaid reports that the text looks like Markdown but is shown as plain text, because
	// rendering it would take too long.
	Unlaid bool
}

// budget is the space left for texts.
type budget struct {
	text  int // per text
	total int // in total
	laid  int // of rendered Markdown; see layingOut
}

// Texts are processed in pieces, so that the cost depends only on what is shown.
const pieceSize = 1 << 10

// show returns the beginning of a text, as far as it fits.
func (b *budget) show(raw string) Text {
	raw = tidy(raw, b.text)
	room, start := min(b.text, b.total), 0
	var shown strings.Builder
	for start < len(raw) {
		end := pieceEnd(raw, start)
		piece := text.VisibleLines(raw[start:end])
		cost := cost(piece)
		if cost > room {
			break
		}
		room -= cost
		b.total -= cost
		shown.WriteString(piece)
		start = end
	}
	return Text{Text: shown.String(), Left: int64(len(raw) - start)}
}

// tidy normalizes line breaks and tabs in the part of a text that may be shown.
func tidy(raw string, most int) string {
	head := raw[:min(len(raw), most+pieceSize)]
	if !strings.ContainsAny(head, "\r\t") {
		return raw
	}
	return strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(head) + raw[len(head):]
}

// pieceEnd returns the end of the piece that begins at start, after a line break if one is
// near.
func pieceEnd(raw string, start int) int {
	end := min(start+pieceSize, len(raw))
	if end == len(raw) {
		return end
	}
	if at := strings.LastIndexByte(raw[start:end], '\n'); at > 0 {
		return start + at + 1
	}
	for end > start+pieceSize-utf8.UTFMax && !utf8.RuneStart(raw[end]) {
		end--
	}
	return end
}

// cost returns the size in bytes of a text within a page.
func cost(text string) int {
	n := len(text)
	for _, special := range []string{`"`, "'", "&", "<", ">", "+"} {
		n += 4 * strings.Count(text, special)
	}
	return n
}

// maxNested is the maximum nesting depth of indented JSON, since indentation grows
// quadratically.
const maxNested = 40

// json returns a value indented, or unchanged if that is not possible.
func (b *budget) json(raw string) Text {
	laid, ok := layOut(raw, b.text)
	if !ok {
		return b.show(raw)
	}
	s := b.show(laid)
	s.JSON = true
	return s
}

func layOut(raw string, most int) (string, bool) {
	var compact bytes.Buffer
	if len(raw) > most || json.Compact(&compact, []byte(raw)) != nil || jsontext.Depth(compact.Bytes()) > maxNested {
		return "", false
	}
	return string(jsontext.Indent(compact.Bytes())), true
}

// either returns a JSON object or array with indentation, and other text as Markdown.
func (b *budget) either(text string) Text {
	if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') {
		return b.json(text)
	}
	return b.markdown(text)
}

// brief returns a text on one line of at most most columns.
func brief(s string, most int) string {
	head := strings.TrimSpace(s[:min(len(s), 4*most)])
	head = strings.Join(strings.Fields(strings.ToValidUTF8(head, "\uFFFD")), " ")
	return text.Line(head, most)
}

// markup is the number of bytes of markup for a marked piece.
const markup = len("<mark></mark>")

// pieces divides a text into marked and unmarked pieces; it returns nil if there is no space for them.
func (b *budget) pieces(s string, marked []bool) (all []Piece) {
	for at := 0; at < len(s); {
		end := at + 1
		for end < len(s) && marked[end] == marked[at] {
			end++
		}
		piece := Piece{Text: s[at:end]}
		if marked[at] {
			piece.Kind = "differs"
		}
		all, at = append(all, piece), end
	}
	if cost := len(all) * markup; cost <= b.total {
		b.total -= cost
		return all
	}
	return nil
}
