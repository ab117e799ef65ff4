// Package text formats text for people: counts, lists, and the beginnings of long texts.
// What strangers wrote is made visible whole ([Visible]), or is printed without what
// terminals and CI systems obey ([Inert]).
package text

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis stands where a text was cut off.
const Ellipsis = "…"

// Count is a number of things, of which the one is named: 1 trial, 2 trials.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Some describes the first things of a list, most at most, and counts the others: a, b, and
// 3 more.
func Some[T any](all []T, most int, describe func(T) string) []string {
	var some []string
	for i, one := range all {
		if i == most {
			return append(some, fmt.Sprintf("and %d more", len(all)-i))
		}
		some = append(some, describe(one))
	}
	return some
}

// Few is [Some] of texts as they are.
func Few(all []string, most int) []string {
	return Some(all, most, func(s string) string { return s })
}

// Beginning is s, or as much of its beginning as most bytes hold: no character is broken.
// Bytes that are none are kept.
func Beginning(s string, most int) (beginning string, isCut bool) {
	if len(s) <= most {
		return s, false
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end], true
}

// Shorten is s, or its beginning in most bytes and an [Ellipsis].
func Shorten(s string, most int) string {
	beginning, isCut := Beginning(s, most)
	if isCut {
		beginning += Ellipsis
	}
	return beginning
}

// Prefix returns how many bytes at the beginning of a and b are equal.
func Prefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Fork returns from which byte on two texts are to be shown in most bytes each, so that their
// first difference is in view with before bytes before it. It is 0 where both are short enough.
func Fork(a, b string, most, before int) int {
	if len(a) <= most && len(b) <= most {
		return 0
	}
	from := max(0, Prefix(a, b)-before)
	for from > 0 && from < len(a) && !utf8.RuneStart(a[from]) {
		from--
	}
	return from
}

// Quote is s in quotes, or its beginning in most bytes and an [Ellipsis] behind the quotes.
func Quote(s string, most int) string {
	beginning, isCut := Beginning(s, most)
	quoted := strconv.Quote(beginning)
	if isCut {
		quoted += Ellipsis
	}
	return quoted
}

// FirstLine is the first line of s that is not blank, without blanks at its ends.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// ShellWord is s as a shell takes it for one word.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/._-+=:@%,", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// GlobWord returns a pattern of [path.Match] that matches s alone.
func GlobWord(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// ShellWords returns the words of a command as a shell splits it: by blanks, except where quotes or
// a backslash keep them. Variables and operators are not special. It fails if a quote is not closed.
func ShellWords(s string) (words []string, err error) {
	var word strings.Builder
	var quote rune // that is open; 0 for none
	begun, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case unicode.IsSpace(r):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	case escaped:
		return nil, errors.New("nothing follows the backslash at the end")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}

// BothEnds returns the first and the last lines of s, and between them how many are left out.
func BothEnds(s string, first, last int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if left := len(lines) - first - last; left > 0 {
		lines = slices.Replace(lines, first, first+left, fmt.Sprintf("[%s left out]", Count(left, "line")))
	}
	return strings.Join(lines, "\n")
}
