// Package text formats text for people: counts, lists, and excerpts of long texts.
// Untrusted text is either escaped to be fully visible ([Visible]), or stripped of what
// terminals and CI systems interpret ([Inert]).
package text

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis marks where a text was truncated.
const Ellipsis = "…"

// Number formats a number with commas between thousands.
func Number[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Count formats a number of things: 1 trial, 2,000 trials.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// Some describes the first most elements of a list and counts the others: a, b, and 3 more.
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

// Few is like [Some] for strings.
func Few(all []string, most int) []string {
	return Some(all, most, func(s string) string { return s })
}

// Beginning returns s truncated to at most most bytes, without splitting a character, and
// whether it was truncated. Invalid bytes are kept.
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

// Shorten returns s truncated to at most most bytes, with an [Ellipsis] if it was longer.
func Shorten(s string, most int) string {
	beginning, isCut := Beginning(s, most)
	if isCut {
		beginning += Ellipsis
	}
	return beginning
}

// Prefix returns the length of the common prefix of a and b in bytes.
func Prefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Fork returns the offset from which to show two texts in most bytes each, so that their
// first difference is visible after before bytes of context. It returns 0 if both are short
// enough.
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

// Quote returns s in quotes, truncated to at most most bytes, with an [Ellipsis] after the
// quotes if it was longer.
func Quote(s string, most int) string {
	beginning, isCut := Beginning(s, most)
	quoted := strconv.Quote(beginning)
	if isCut {
		quoted += Ellipsis
	}
	return quoted
}

// FirstLine returns the first non-blank line of s without surrounding space.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// complaint matches a line of output that reports a problem.
var complaint = regexp.MustCompile(`(?i)\b(?:error|fatal|panic|cannot|can't|could not|unable|failed|missing|required|must be|not found|denied|refused|invalid|unknown|usage)\b`)

// Telling returns the first line of a program's output that reports a problem. If there is none, or
// the output has a Python traceback, it returns the last line that is not blank.
func Telling(printed string) (line string) {
	traceback := strings.Contains(printed, "Traceback (most recent call last)")
	for l := range strings.Lines(printed) {
		if l = strings.TrimSpace(l); l != "" {
			line = l
		}
		if !traceback && complaint.MatchString(l) {
			break
		}
	}
	return line
}

// Gist returns the gist of the output of a program that failed, on one line: its first line, the
// line of [Telling], and its last line, each shortened if there are several.
func Gist(printed string) string {
	const most = 160 // bytes of each
	lines := strings.FieldsFunc(printed, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return ""
	}
	picked := []string{lines[0], Telling(strings.Join(lines, "\n")), lines[len(lines)-1]}
	for i, line := range picked {
		picked[i] = strings.TrimSpace(line)
	}
	if picked = slices.Compact(picked); len(picked) == 1 {
		return picked[0]
	}
	for i, line := range picked {
		picked[i] = Shorten(line, most)
	}
	return strings.Join(picked, " "+Ellipsis+" ")
}

// ShellWord quotes s as a single shell word if necessary.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/._-+=:@%,", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// GlobWord returns a pattern for [path.Match] that matches only s.
func GlobWord(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// ShellWords splits a command into words like a shell: at blanks, except in quotes or after
// a backslash. Variables and operators are not interpreted. It returns an error if a quote
// is not closed.
func ShellWords(s string) (words []string, err error) {
	var word strings.Builder
	var quote rune // currently open; 0 for none
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

// BothEnds returns the first and last lines of s, with the number of lines left out between
// them.
func BothEnds(s string, first, last int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if left := len(lines) - first - last; left > 0 {
		lines = slices.Replace(lines, first, first+left, fmt.Sprintf("[%s left out]", Count(left, "line")))
	}
	return strings.Join(lines, "\n")
}
