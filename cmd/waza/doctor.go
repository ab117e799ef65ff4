package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/internal/checkup"
)

func (s *state) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "say whether waza run --isolate would work here, and what would mend it",
		Description: "Looks at the engine, what it can enforce, and at this machine; changes nothing; with\n--probe it also attacks sandboxes from inside, as a run does. Exit code 3 where a run\ncould not work.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "probe", Usage: "open sandboxes, and try to get out of them"},
			formatFlag(formatDefault, formatJSON),
		},
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage("doctor takes no arguments")
			}
			format, err := formatOf(c, formatDefault, formatJSON)
			if err != nil {
				return err
			}
			all := containers.Examine(c.Context)
			if c.Bool("probe") && all.Worst() != checkup.Problem {
				all = append(all, s.probeSandboxes(c.Context)...)
			}
			all = append(all, examineMachine()...)
			if err := s.printChecks(format, all); err != nil {
				return err
			}
			if all.Worst() == checkup.Problem {
				return &exitError{exitInfra, nil}
			}
			return nil
		},
	}
}

func (s *state) printChecks(f format, all checkup.Checks) error {
	if f == formatJSON {
		out := json.NewEncoder(s.stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(struct {
			Status checkup.Status `json:"status"`
			Checks checkup.Checks `json:"checks"`
		}{all.Worst(), all})
	}
	columns := width(s.stdout)
	if columns == 0 {
		columns = 80
	}
	for _, check := range all {
		fill(s.stdout, columns, fmt.Sprintf("%-8s %-10s ", check.Status, check.Name), 20, check.Says)
		if check.Mend != "" {
			fill(s.stdout, columns, strings.Repeat(" ", 20), 20, "→ "+check.Mend)
		}
	}
	fmt.Fprintln(s.stdout, "\n"+map[checkup.Status]string{
		checkup.OK:      "All is well.",
		checkup.Warning: "Runs work; see the warnings.",
		checkup.Problem: "A run would not work; see the problems.",
	}[all.Worst()])
	return nil
}

// fill prints head and then text in lines of so many columns, those after the first
// indented.
func fill(w io.Writer, columns int, head string, indent int, text string) {
	line := head
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && len([]rune(line))+1+len([]rune(word)) > columns:
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", indent) + word
		case i > 0:
			line += " " + word
		default:
			line += word
		}
	}
	fmt.Fprintln(w, line)
}
