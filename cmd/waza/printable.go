package main

import (
	"errors"
	"io"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
)

// printable is a stranger's text of one line: what agents and servers said is in much of
// what is printed.
func printable(s string) string { return text.Inert(s) }

// indented is printable text of several lines, set in below its first.
func indented(s string) string {
	return strings.ReplaceAll(text.InertLines(strings.TrimRight(s, "\n")), "\n", "\n    ")
}

// printJSON prints JSON that write writes.
func (s *state) printJSON(write func(io.Writer) error) error {
	out := text.InertJSON(s.stdout)
	return errors.Join(write(out), out.Close())
}
