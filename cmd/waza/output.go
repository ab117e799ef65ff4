package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// format is an output format.
type format string

const (
	formatDefault format = "default"
	formatJSON    format = "json"
	formatGitHub  format = "github-comment" // Markdown for a pull request
	formatSARIF   format = "sarif"          // for GitHub's code scanning
)

// formatFlag returns the flag of a command that prints in any of the given formats.
func formatFlag(all ...format) cli.Flag {
	return &cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: string(formatDefault), Usage: "Print in `FORMAT`: " + either(all), Action: mustBeOneOf("format", all)}
}

func formatOf(c *cli.Command) format { return format(c.String("format")) }

// either joins names with commas and a final "or".
func either[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = string(f)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// fileOf returns the file behind w, if there is one.
func fileOf(w io.Writer) (*os.File, bool) {
	switch under := w.(type) {
	case *screen:
		w = under.out
	case *stdoutWriter:
		w = under.out
	}
	file, ok := w.(*os.File)
	return file, ok
}

// terminalOf returns the file descriptor of the terminal behind w, if there is one.
func terminalOf(w io.Writer) (fd int, ok bool) {
	file, isFile := fileOf(w)
	if !isFile {
		return 0, false
	}
	return int(file.Fd()), term.IsTerminal(int(file.Fd()))
}

// width returns the width of the terminal behind w in columns, or 0 if it is not a terminal.
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

// ownSequences returns the control sequences that waza itself writes to w: those of styles on a
// terminal.
func ownSequences(w io.Writer) []string {
	if _, isTerminal := terminalOf(w); isTerminal {
		return terminal.Sequences()
	}
	return nil
}

// printValue prints v as JSON.
func (s *state) printValue(v any) error {
	data, err := evidence.MarshalIndent(v)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(data)
	return err
}

// runOutput is the destination of a run's output.
type runOutput struct {
	*state
	verbosity verbosity
	format    format
	file      string // copy of results.json, or ""
	exports   exports
	label     string // part of file names, if the command makes several runs; otherwise ""
}

// readOutput reads the flags for the output of a run, whose results.json is copied to file, if that is not empty.
func readOutput(s *state, c *cli.Command, file string) (out runOutput, err error) {
	out = runOutput{state: s, file: file, format: formatOf(c)}
	if out.exports, err = readExports(c, out.file); err != nil {
		return out, err
	}
	if out.exports.tracing, err = readTracing(c, s.lookup); err != nil {
		return out, err
	}
	switch {
	case c.Bool("v") && c.Bool("q"):
		return out, usage("-v and -q contradict each other; give one of them")
	case c.Bool("v") || c.Bool("debug"):
		out.verbosity = verbose
	case c.Bool("q"):
		out.verbosity = quiet
	}
	if out.file != "" {
		if info, err := os.Stat(filepath.Dir(out.file)); err != nil || !info.IsDir() {
			return out, usage("--output: there is no directory %s", filepath.Dir(out.file))
		}
		if err := files.Writable(files.NamedFile(out.file)); err != nil {
			return out, usage("--output: %w", err)
		}
	}
	return out, nil
}

// printOutcome prints the outcome of a run. It returns err joined with errors from printing. j is nil if no
// trial was left to run.
func (o runOutput) printOutcome(j *runner.Job, out runner.Outcome, err error) error {
	if out.Dir == "" {
		return withExitCode(err)
	}
	if out.Written && j != nil {
		err = errors.Join(err, o.export(j, out))
	}
	run := out.View()
	if err := o.workflow.add(out); err != nil {
		o.warn(err)
	}
	shown := saveResults(out.Dir, o.file)
	hasTable := o.verbosity != quiet && run.Trials() > 0
	if shown == nil && len(run.Results.Tasks) > 0 && (hasTable || o.format != formatDefault) {
		shown = o.show(run, o.format, "")
	}
	if o.format == formatDefault {
		o.epilogue(run, o.verbosity)
	} else {
		fmt.Fprintln(o.stderr, terminal.Verdict(run, o.styleOf(o.stderr)))
	}
	if err != nil {
		return &exitError{exitInfra, errors.Join(err, shown)}
	}
	return shown
}

// epilogue prints which trials did not pass and why, and where the evidence is.
func (s *state) epilogue(run view.Run, l verbosity) {
	end := terminal.Ending{Run: run, Style: s.styleOf(s.stdout), Width: width(s.stdout)}
	page := filepath.Join(run.Dir, runner.ReportFile)
	if info, err := os.Stat(page); err == nil && info.Mode().IsRegular() {
		end.Report = page
	}
	if l == quiet {
		_ = end.WriteShort(s.stdout)
	} else {
		_ = end.Write(s.stdout)
	}
}

// saveResults copies the results of the run in dir to file, if it is not empty.
func saveResults(dir, file string) error {
	if file == "" {
		return nil
	}
	err := writeNamed(file, func(w io.Writer) error { return copyTo(w, dir, runner.ResultsFile) })
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// show prints the results of a run in format f, and copies them to file, if it is not empty.
func (s *state) show(run view.Run, f format, file string) error {
	if err := saveResults(run.Dir, file); err != nil {
		return err
	}
	switch f {
	case formatJSON:
		return copyTo(s.stdout, run.Dir, runner.ResultsFile)
	case formatGitHub:
		return github.Comment(s.stdout, run)
	}
	return terminal.Run(s.stdout, run.Results, width(s.stdout))
}

// copyTo copies a file of an evidence directory to w.
func copyTo(w io.Writer, dir, name string) error {
	file, err := evidence.Open(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(w, file)
	return err
}

// compare prints a comparison in format f, and writes it as JSON to file, if it is not empty.
func (s *state) compare(c results.Comparison, f format, file string) error {
	if file != "" {
		data, err := evidence.MarshalIndent(c)
		if err != nil {
			return err
		}
		if err := writeNamed(file, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return usage("--output: %w", err)
		}
	}
	switch f {
	case formatJSON:
		return s.printValue(c)
	case formatGitHub:
		return github.Comparison(s.stdout, c)
	}
	if err := terminal.Comparison(s.stdout, c, width(s.stdout)); err != nil || len(c.Pairs) == 0 {
		return err
	}
	fmt.Fprintln(s.stdout)
	return terminal.Pairs(s.stdout, c, width(s.stdout))
}
