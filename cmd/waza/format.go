package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/waza-isolate/waza/internal/ansi"
)

// format is what a command prints on stdout.
type format string

const (
	formatDefault format = "default"
	formatJSON    format = "json"
	formatGitHub  format = "github-comment" // Markdown for a pull request
)

// formatFlag is the flag of a command that can print all of these.
func formatFlag(all ...format) cli.Flag {
	return &cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: string(formatDefault), Usage: "print in this `FORMAT`: " + either(all)}
}

func formatOf(c *cli.Context, all ...format) (format, error) {
	f := format(c.String("format"))
	if !slices.Contains(all, f) {
		return "", usage("--format %q: must be %s", f, either(all))
	}
	return f, nil
}

// either names formats as a sentence has them.
func either(all []format) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = string(f)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// terminalOf returns the terminal behind w, if there is one.
func terminalOf(w io.Writer) (fd int, ok bool) {
	if s, ok := w.(*screen); ok {
		w = s.out
	}
	file, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(file.Fd()), term.IsTerminal(int(file.Fd()))
}

// styleOf is how text for w is coloured.
func (s *state) styleOf(w io.Writer) ansi.Style {
	_, isTerminal := terminalOf(w)
	return ansi.StyleFor(isTerminal, s.lookup)
}

// width is how many columns a line may have; 0 is any number.
func width(w io.Writer) int {
	fd, ok := terminalOf(w)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(fd)
	if err != nil {
		return 80
	}
	return columns
}
