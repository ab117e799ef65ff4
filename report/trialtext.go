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

// Text is a stranger's text as it is shown: all that it holds is visible.
type Text struct {
	Text string
	JSON bool  // laid out, with the beginnings of objects and arrays at the ends of lines
	Left int64 // bytes that are not shown
	// Markdown is how the text looks as Markdown; empty where it is shown as it is written.
	Markdown template.HTML
	// Unlaid is set where it looks like Markdown and is shown as it is written, because laying it out takes too long.
	Unlaid bool
}

// budget is the room that is left for texts.
type budget struct {
	text  int // of one
	total int // of all
	laid  int // of Markdown that is laid out; see layingOut
}

// Texts are looked at in pieces, so that a long one costs no more than what is shown.
const pieceSize = 1 << 10

// show returns the beginning of a text, as far as there is room.
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

// tidy writes line breaks and tabs as a page has them, as far as a text can be shown.
func tidy(raw string, most int) string {
	head := raw[:min(len(raw), most+pieceSize)]
	if !strings.ContainsAny(head, "\r\t") {
		return raw
	}
	return strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(head) + raw[len(head):]
}

// pieceEnd returns where a piece ends that begins at start: behind a line where one ends near.
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

// cost returns how many bytes a text takes in a page.
func cost(text string) int {
	n := len(text)
	for _, special := range []string{`"`, "'", "&", "<", ">", "+"} {
		n += 4 * strings.Count(text, special)
	}
	return n
}

// maxNested is how deep JSON may nest that is laid out: indentation grows with the square.
const maxNested = 40

// json returns a value laid out, or as it is where that is not possible.
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

// either returns a text, laid out where it is an object or an array of JSON, and else as Markdown.
func (b *budget) either(text string) Text {
	if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') {
		return b.json(text)
	}
	return b.markdown(text)
}

// brief returns a text on one line of at most so many columns.
func brief(s string, most int) string {
	head := strings.TrimSpace(s[:min(len(s), 4*most)])
	head = strings.Join(strings.Fields(strings.ToValidUTF8(head, "\uFFFD")), " ")
	return text.Line(head, most)
}
