package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/conversation"
	"github.com/waza-isolate/waza/report/markdown"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
)

// maxReported is how many runs one report holds.
const maxReported = 32

// reportCommand is waza report.
type reportCommand struct{ *state }

func (s reportCommand) command() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "write the report of a run, or of several side by side",
		ArgsUsage: "RUN...",
		Description: "Writes report.html and junit.xml into the run directory, from what is there: nothing is\n" +
			"graded again, and the run need not have ended. --output writes the page of HTML elsewhere; it is\n" +
			"needed while somebody is at work on the run, and for several, which are shown side by side. --format github-comment prints\n" +
			"a comment for a pull request, and writes nothing.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to this `FILE`"},
			formatFlag(formatDefault, formatGitHub),
		},
		Action: func(c *cli.Context) error {
			dirs := c.Args().Slice()
			if len(dirs) == 0 || len(dirs) > maxReported {
				return usage("report takes from 1 to %d run directories; see waza report --help", maxReported)
			}
			format, err := formatOf(c, formatDefault, formatGitHub)
			if err != nil {
				return err
			}
			if format == formatGitHub && len(dirs) > 1 {
				return usage("a comment is of one run; waza compare --format github-comment has several")
			}
			if c.String("output") == "" && len(dirs) > 1 {
				return usage("several runs have one report: name its file with --output")
			}
			return s.report(dirs, c.String("output"), format)
		},
	}
}

func (s reportCommand) report(dirs []string, file string, f format) error {
	if file == "" && f == formatDefault {
		return s.reportInto(dirs[0])
	}
	if err := differ(dirs); err != nil {
		return err
	}
	var records []runner.Record
	for _, dir := range dirs {
		record, err := runner.ReadRecord(dir)
		if err != nil {
			return usage("%w", err)
		}
		runner.WarnOfGone(dir, record, s.warn)
		records = append(records, record)
	}
	if f == formatDefault {
		if err := writeTo(file, func(w io.Writer) error { return runner.WriteReport(w, dirs) }); err != nil {
			return err
		}
		return s.wrote(file)
	}
	run, err := runner.Reported(dirs[0], records[0])
	if err != nil {
		return infra(err)
	}
	return s.comment(run, file)
}

// reportInto writes the reports of the run in dir into it, and prints where they are.
func (s reportCommand) reportInto(dir string) error {
	const elsewhere = "--output writes its page elsewhere"
	err := runner.ReportInto(dir, s.warn)
	switch {
	case err == nil:
		return errors.Join(s.wrote(filepath.Join(dir, runner.ReportFile)), s.wrote(filepath.Join(dir, runner.JUnitFile)))
	case errors.Is(err, sandbox.ErrAlive):
		return usage("%w: %s", err, elsewhere)
	case !errors.As(err, new(runner.Mistake)) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		return usage("%s cannot be written to: %s", dir, elsewhere)
	}
	return infra(err)
}

// differ refuses a run that is named twice.
func differ(dirs []string) error {
	var before []fs.FileInfo
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // reading the run says what is wrong
		}
		if at := slices.IndexFunc(before, func(b fs.FileInfo) bool { return os.SameFile(b, info) }); at >= 0 {
			return usage("%s is named twice: a report has each run once", dir)
		}
		before = append(before, info)
	}
	return nil
}

// writeTo writes the file that --output names. That nothing can be written there is the
// fault of who named it.
func writeTo(file string, write func(io.Writer) error) error {
	err := evidence.WriteFileBy(file, write)
	var place *fs.PathError
	switch {
	case errors.As(err, &place) && place.Path == file:
		return usage("--output: %w", place)
	case err != nil:
		return infra(err)
	}
	return nil
}

func (s reportCommand) wrote(file string) error {
	_, err := fmt.Fprintln(s.stdout, file)
	return err
}

// comment prints a comment on a run, or writes it to a file where one is named.
func (s reportCommand) comment(run view.Run, file string) error {
	write := func(w io.Writer) error { return markdown.Comment(w, run) }
	if file == "" {
		return write(s.stdout)
	}
	return writeTo(file, write)
}

// maxCompared is how many runs one table holds.
const maxCompared = 256

// compareCommand is waza compare.
type compareCommand struct{ *state }

func (s compareCommand) command() *cli.Command {
	return &cli.Command{
		Name:         "compare",
		Usage:        "hold finished runs side by side",
		ArgsUsage:    "RUN RUN...",
		Description:  "RUN is a run directory or a results.json. The first is what the others are held against,\ntask by task: what is paired are the tasks that both have. Where an interval has room for\nno difference, none is shown. What to look at comes first.",
		OnUsageError: usageError,
		Flags:        []cli.Flag{comparisonFlag(), formatFlag(formatDefault, formatJSON, formatGitHub)},
		Action: func(c *cli.Context) error {
			if n := c.NArg(); n < 2 || n > maxCompared {
				return usage("compare takes from 2 to %d runs; see waza compare --help", maxCompared)
			}
			format, err := formatOf(c, formatDefault, formatJSON, formatGitHub)
			if err != nil {
				return err
			}
			var entries []results.Entry
			for _, path := range c.Args().Slice() {
				entry, err := runner.ReadEntry(path)
				if err != nil {
					return usage("%w", err)
				}
				entries = append(entries, entry)
			}
			return s.compare(results.Compare(entries), format, c.String("output"))
		},
	}
}

func comparisonFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the comparison as JSON to this `FILE`"}
}

// showCommand is waza show.
type showCommand struct{ *state }

func (s showCommand) command() *cli.Command {
	return &cli.Command{
		Name:         "show",
		Usage:        "show the conversation of a trial",
		ArgsUsage:    "RUN [TASK [N]]",
		Description:  "Prints what the agent was told, what models answered, what was called on the wire and\nby whom, what came of it, what happened beside, and the verdicts. Where RUN has several\ntrials that fit, it lists them. TASK/N is TASK N.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "full", Aliases: []string{"v"}, Usage: "cut nothing short"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() < 1 || c.NArg() > 3 {
				return usage("show takes a run directory, and the trial to show; see waza show --help")
			}
			which := strings.Join(c.Args().Slice()[1:], "/")
			return s.showTrial(c.Args().First(), which, terminal.Shown{Full: c.Bool("full"), Style: s.styleOf(s.stdout)})
		},
	}
}

func (s showCommand) showTrial(dir, which string, as terminal.Shown) error {
	if _, err := runner.ReadRecord(dir); err != nil {
		return usage("%w", err)
	}
	found, err := trialsNamed(dir, which)
	switch {
	case err != nil:
		return infra(err)
	case len(found) == 0 && which == "":
		return usage("%s has no trial that has ended", dir)
	case len(found) == 0:
		return usage("%s has no trial %s; see waza show %s", dir, text.Inert(which), dir)
	}
	if len(found) == 1 {
		err = s.printTrial(found[0], as)
	} else {
		err = s.listTrials(dir, found)
	}
	if err != nil {
		return infra(err)
	}
	return nil
}

func (s showCommand) printTrial(dir evidence.Dir, as terminal.Shown) error {
	talk, err := conversation.Read(dir, nil)
	if err != nil {
		return err
	}
	return terminal.Conversation(s.stdout, talk, as)
}

// trialsNamed are the trials of a run that TASK or TASK/N names; all for "".
func trialsNamed(dir, which string) (named []evidence.Dir, err error) {
	all, err := runner.Trials(dir)
	for _, trial := range all {
		number := filepath.Base(string(trial))
		task := filepath.Base(filepath.Dir(string(trial)))
		if which == "" || which == task || which == task+"/"+number {
			named = append(named, trial)
		}
	}
	return named, err
}

// listTrials prints a line for each trial, with what to type to see it.
func (s showCommand) listTrials(dir string, trials []evidence.Dir) error {
	for _, d := range trials {
		trial, err := d.Trial()
		if err != nil {
			return err
		}
		verdicts, err := d.Verdicts()
		if err != nil { // it was not graded, or cannot be read
			verdicts = evidence.Verdicts{}
		}
		class, reason, _ := trial.Outcome(verdicts)
		line := fmt.Sprintf("waza show %s %s %d", text.ShellWord(dir), text.ShellWord(trial.Task), trial.Number)
		outcome := terminal.Paint(s.styleOf(s.stdout), class)(text.Inert(class.With(reason)))
		if _, err := fmt.Fprintf(s.stdout, "%s  %s\n", text.Inert(line), outcome); err != nil {
			return err
		}
	}
	return nil
}
