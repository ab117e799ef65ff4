package text

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/defence"
)

// Inert is a text of one line without what would control a terminal, or the order in
// which it shows characters, and without what a CI system would obey. Nothing in it ends
// the line.
func Inert(s string) string {
	if !defence.InertText {
		return s
	}
	return disobeyed(strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, s))
}

// InertLines is [Inert] for each line of a text.
func InertLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Inert(lines[i])
	}
	return strings.Join(lines, "\n")
}

var (
	// anywhere is what begins a command wherever it stands: ##[error], ##vso[…],
	// ##teamcity[…].
	anywhere = regexp.MustCompile(`##([A-Za-z]*\[)`)
	// ahead is what begins one at the beginning of a line: ::error::, ::add-mask::.
	ahead = regexp.MustCompile(`^::([A-Za-z])`)
)

// Indented is [InertLines] of a text, set in below its first line.
func Indented(s string) string {
	return strings.ReplaceAll(InertLines(strings.TrimRight(s, "\n")), "\n", "\n    ")
}

// disobeyed puts a blank into what a CI system would take for a command. Indenting does
// not do: GitHub's runner looks behind blanks at the beginning.
func disobeyed(line string) string {
	if strings.Contains(line, "##") {
		line = anywhere.ReplaceAllString(line, "# #$1")
	}
	text := strings.TrimLeftFunc(line, unicode.IsSpace)
	blanks := line[:len(line)-len(text)]
	return blanks + ahead.ReplaceAllString(text, ": :$1")
}
