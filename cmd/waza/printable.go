package main

import (
	"strings"
	"unicode"
)

// printable takes out what would control the terminal, or the order in which it shows
// characters: what agents and servers said is in much of what is printed.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, s)
}

// indented is printable text of several lines, set in below its first.
func indented(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n    ")
}
