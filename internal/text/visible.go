package text

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Visible returns s on one line, with invisible characters escaped and line breaks as
// .
func Visible(s string) string { return write(s, false) }

// VisibleLines is like [Visible], but keeps line breaks.
func VisibleLines(s string) string { return write(s, true) }

func write(s string, breaks bool) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02X`, s[0])
		case r == '\n' && breaks:
			b.WriteByte('\n')
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case Hidden(r) || !unicode.IsGraphic(r):
			fmt.Fprintf(&b, `\u{%X}`, r)
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// blank holds invisible characters that Unicode classifies as letters or marks.
var blank = map[rune]bool{0x034F: true, 0x115F: true, 0x1160: true, 0x17B4: true, 0x17B5: true, 0x3164: true, 0xFFA0: true, 0x2800: true}

// Hidden reports whether a character has no width, or looks like a space without being one.
// Line breaks, tabs and the variation selectors of emoji are not hidden.
func Hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || r == 0xFE0F || r == 0xFE0E:
		return false
	case blank[r] || r >= 0xFE00 && r <= 0xFE0D || r >= 0xE0100 && r <= 0xE01EF:
		return true
	}
	return unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || unicode.Is(unicode.Co, r)
}

// Columns returns the number of terminal columns of s: East Asian characters and emoji take
// two, combining marks none.
func Columns(s string) int {
	if isPlain(s) {
		return len(s)
	}
	return uniseg.StringWidth(s)
}

// Line returns the beginning of s in the form of [Visible], in at most columns columns. Its
// cost does not depend on the length of s.
func Line(s string, columns int) string {
	beginning, _ := Beginning(s, utf8.UTFMax*columns)
	return Fit(Visible(beginning), columns)
}

// Ends returns s in the form of [Visible], in at most columns columns. If it is longer, it returns
// its beginning and its end with an [Ellipsis] between them. Its cost does not depend on the length
// of s.
func Ends(s string, columns int) string {
	whole, isCut := Beginning(s, utf8.UTFMax*columns)
	if whole = Visible(whole); !isCut && Columns(whole) <= columns {
		return whole
	}
	end := fitSuffix(Visible(suffix(s, utf8.UTFMax*columns)), columns/2)
	if _, words, ok := strings.Cut(end, " "); ok {
		end = words
	}
	return Fit(whole, columns-columns/2-1) + " " + end
}

// suffix returns at most the last most bytes of s, without splitting a character.
func suffix(s string, most int) string {
	return strings.TrimLeftFunc(s[max(0, len(s)-most):], func(r rune) bool { return r == utf8.RuneError })
}

// fitSuffix returns the end of s that fits in columns columns.
func fitSuffix(s string, columns int) string {
	for Columns(s) > columns {
		_, s, _, _ = uniseg.FirstGraphemeClusterInString(s, -1)
	}
	return s
}

// Lines returns the beginning of s in the form of [VisibleLines], in at most most bytes,
// and whether it was truncated.
func Lines(s string, most int) (shown string, isCut bool) {
	beginning, more := Beginning(s, most)
	shown, hidden := Beginning(VisibleLines(beginning), most)
	return shown, more || hidden
}

// Wrap breaks a line between words into lines of at most width columns. Longer words are broken
// too. Leading spaces are kept.
func Wrap(s string, width int) (lines []string) {
	width = max(width, 4)
	lead := len(s) - len(strings.TrimLeft(s, " "))
	words := strings.Split(s[lead:], " ")
	words[0] = s[:lead] + words[0]
	line, used := "", 0
	for _, word := range words {
		head, isCut := Beginning(word, 8*width)
		for isCut || Columns(head) > width {
			if line != "" {
				lines, line, used = append(lines, line), "", 0
			}
			// A character with too many combining marks fits nowhere.
			head = cmp.Or(strings.TrimSuffix(Fit(head, width), Ellipsis), head)
			lines, word = append(lines, head), word[len(head):]
			head, isCut = Beginning(word, 8*width)
		}
		switch columns := Columns(word); {
		case line == "":
			line, used = word, columns
		case used+1+columns <= width:
			line, used = line+" "+word, used+1+columns
		default:
			lines, line, used = append(lines, line), word, columns
		}
	}
	return append(lines, line)
}

// isPlain reports whether s is printable ASCII, where each byte takes one column.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Fit returns s truncated to at most columns columns, with an [Ellipsis] if it was longer.
// The number of combining marks, which have no width, is limited too.
func Fit(s string, columns int) string {
	if Columns(s) <= columns && len(s) <= 8*columns+8 {
		return s
	}
	var fits strings.Builder
	for rest, state, used := s, -1, 0; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used += width; used > columns-1 || fits.Len()+len(cluster) > 8*columns {
			break
		}
		fits.WriteString(cluster)
	}
	return fits.String() + Ellipsis
}

// FitEnds returns s in at most head+tail columns. If it is longer, it returns the beginning that
// fits in head columns with an [Ellipsis], and the end that fits in tail columns.
func FitEnds(s string, head, tail int) string {
	if fits := Fit(s, head+tail); fits == s || tail <= 0 {
		return fits
	}
	return Fit(s, head) + fitSuffix(suffix(s, utf8.UTFMax*tail), tail)
}
