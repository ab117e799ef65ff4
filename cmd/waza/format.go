package main

import (
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// format is what a command prints on stdout.
type format string

const (
	formatDefault format = "default"
	formatJSON    format = "json"
)

func formatFlag() cli.Flag {
	return &cli.StringFlag{Name: "format", Value: string(formatDefault), Usage: "what to print: default or json"}
}

func formatOf(c *cli.Context) (format, error) {
	switch f := format(c.String("format")); f {
	case formatDefault, formatJSON:
		return f, nil
	default:
		return "", usage("--format %q: must be default or json", f)
	}
}

// terminal returns the terminal behind w, if there is one.
func terminal(w io.Writer) (fd int, ok bool) {
	if s, ok := w.(*screen); ok {
		w = s.out
	}
	file, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(file.Fd()), term.IsTerminal(int(file.Fd()))
}

// width is how many columns a line may have; 0 is any number.
func width(w io.Writer) int {
	fd, ok := terminal(w)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(fd)
	if err != nil {
		return 80
	}
	return columns
}
