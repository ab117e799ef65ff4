package text

import (
	"regexp"
	"strings"
	"unicode"
)

// Inert returns s as a single line without control characters and characters that change
// the text direction, and with commands to CI systems disabled.
func Inert(s string) string {
	return disobeyed(strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, s))
}

// InertLines applies [Inert] to each line of a text.
func InertLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Inert(lines[i])
	}
	return strings.Join(lines, "\n")
}

var (
	// anywhere matches the start of a CI command that is recognized anywhere in a line:
	// ##[error], ##vso[…], ##teamcity[…].
	anywhere = regexp.MustCompile(`##([A-Za-z]*\[)`)
	// ahead matches the start of a CI command that is recognized at the start of a line:
	// ::error::, ::add-mask::.
	ahead = regexp.MustCompile(`^::([A-Za-z])`)
)

// Indented applies [InertLines] to a text and indents all lines but the first.
func Indented(s string) string {
	return strings.ReplaceAll(InertLines(strings.TrimRight(s, "\n")), "\n", "\n    ")
}

// disobeyed inserts a space into CI commands so that they are not executed. Indenting the
// line is not enough, since GitHub's runner skips leading spaces.
func disobeyed(line string) string {
	if strings.Contains(line, "##") {
		line = anywhere.ReplaceAllString(line, "# #$1")
	}
	text := strings.TrimLeftFunc(line, unicode.IsSpace)
	blanks := line[:len(line)-len(text)]
	return blanks + ahead.ReplaceAllString(text, ": :$1")
}
