package finding

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/text"
)

// hidden finds runs of invisible characters.
func hidden(s string) (all []found) {
	var run []rune
	start, last := 0, rune(0)
	end := func(at int, next rune) {
		if f, is := asHidden(run, last, next, start, at); is {
			all = append(all, f)
		}
		run = run[:0]
	}
	for i, r := range s {
		if text.Hidden(r) {
			if len(run) == 0 {
				start = i
			}
			run = append(run, r)
			continue
		}
		if len(run) > 0 {
			end(i, r)
		}
		last = r
	}
	if len(run) > 0 {
		end(len(s), 0)
	}
	return all
}

// asHidden returns the finding for a run of invisible characters between two others, if
// any.
func asHidden(run []rune, before, after rune, start, end int) (found, bool) {
	f := found{kind: Hidden, start: start, end: end}
	if slices.ContainsFunc(run, unicode.IsControl) {
		f.kind = Terminal
		return f, true
	}
	if reported := inTags(run); reported != "" {
		if before == 0x1F3F4 { // an emoji flag is encoded this way
			return f, false
		}
		f.detail = fmt.Sprintf("%d invisible characters that spell: %s", len(run), reported)
		return f, true
	}
	if len(run) == 1 && joins(run[0], before, after) {
		return f, false
	}
	if len(run) > 8 {
		f.detail = fmt.Sprintf("%d invisible characters, the first is \\u{%X}", len(run), run[0])
	}
	return f, true
}

// inTags returns the text that the tag characters of a run encode, each standing for an
// ASCII character.
func inTags(run []rune) string {
	var b strings.Builder
	for _, r := range run {
		if r >= 0xE0020 && r <= 0xE007E {
			b.WriteRune(r - 0xE0000)
		}
	}
	return b.String()
}

// joins reports whether an invisible character is legitimate: joiners in emoji and in
// joining scripts, and direction marks between left-to-right and right-to-left text.
func joins(r, before, after rune) bool {
	const firstOfOthers = 0x0590 // Hebrew and later scripts
	switch r {
	case 0x200C, 0x200D, 0x200E, 0x200F, 0x061C:
		return before >= firstOfOthers || after >= firstOfOthers
	}
	return r == '\r'
}

// lookalikes finds words that mix Latin letters with letters that look like them.
func lookalikes(text string) (all []found) {
	start, latin, other := -1, false, false
	end := func(at int) {
		if start >= 0 && latin && other {
			all = append(all, found{kind: Lookalike, start: start, end: at, detail: fmt.Sprintf("%s, which is spelled %s", text[start:at], spelled(text[start:at]))})
		}
		start, latin, other = -1, false, false
	}
	for i, r := range text {
		if !unicode.IsLetter(r) {
			end(i)
			continue
		}
		if start < 0 {
			start = i
		}
		latin = latin || unicode.Is(unicode.Latin, r)
		other = other || latinFor[r] != 0
	}
	end(len(text))
	return all
}

// latinFor maps Cyrillic and Greek letters to the Latin letters they look like.
var latinFor = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'к': 'k', 'м': 'm', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'ѕ': 's', 'т': 't', 'у': 'y', 'х': 'x', 'ԝ': 'w',
	'А': 'A', 'В': 'B', 'С': 'C', 'Е': 'E', 'Н': 'H', 'І': 'I', 'Ј': 'J', 'К': 'K', 'М': 'M', 'О': 'O', 'Р': 'P', 'Ѕ': 'S', 'Т': 'T', 'У': 'Y', 'Х': 'X',
	'α': 'a', 'ε': 'e', 'ι': 'i', 'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't', 'υ': 'u', 'χ': 'x',
	'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I', 'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X',
}

// spelled returns word with its non-Latin letters escaped.
func spelled(word string) string {
	var b strings.Builder
	for _, r := range word {
		if latinFor[r] != 0 {
			fmt.Fprintf(&b, `\u{%X}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// White space that moves the text after it out of view.
const (
	farSpaces = 60
	farLines  = 8
)

// pushed finds text after a long run of white space.
func pushed(text string) (all []found) {
	spaces, lines := 0, 0
	for i, r := range text {
		switch {
		case r == '\n':
			lines++
			spaces++
		case unicode.IsSpace(r):
			spaces++
		default:
			if i > 0 && (lines >= farLines || spaces-lines >= farSpaces && lines == 0) {
				all = append(all, found{kind: Pushed, start: i, end: min(len(text), i+around), detail: fmt.Sprintf("after %d spaces and line breaks: %s", spaces, text[i:min(len(text), i+maxExcerpt)])})
			}
			spaces, lines = 0, 0
		}
	}
	return all
}

// blob matches potential base64 or hexadecimal text.
var blob = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}={0,2}`)

// encoded finds encoded texts.
func encoded(s string) (all []found) {
	for _, at := range blob.FindAllStringIndex(s, -1) {
		if reported := decoded(s[at[0]:at[1]]); reported != "" {
			all = append(all, found{kind: Encoded, start: at[0], end: at[1], detail: text.Shorten(s[at[0]:min(at[1], at[0]+around)], maxExcerpt) + "… says: " + reported})
		}
	}
	return all
}

// decoded returns the text that a blob encodes, or "".
func decoded(blob string) string {
	if raw, err := hex.DecodeString(blob); err == nil {
		return asText(raw)
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(blob, "="))
	raw, err := base64.RawStdEncoding.DecodeString(plain[:len(plain)-len(plain)%4])
	if err != nil {
		return ""
	}
	return asText(raw)
}

// asText returns raw if it reads as text of several words or as a URL, otherwise "".
func asText(raw []byte) string {
	if !utf8.Valid(raw) {
		return ""
	}
	letters, spaces := 0, 0
	for _, r := range string(raw) {
		switch {
		case unicode.IsLetter(r):
			letters++
		case r == ' ' || r == '\n':
			spaces++
		case !unicode.IsGraphic(r) && r != '\r' && r != '\t':
			return ""
		}
	}
	if letters*2 < len(raw) || spaces == 0 && !strings.Contains(string(raw), "://") {
		return ""
	}
	return string(raw)
}
