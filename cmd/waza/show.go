package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/ansi"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/report/conversation"
	"github.com/waza-isolate/waza/runner"
)

func (s *state) showCommand() *cli.Command {
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
			return s.showTrial(c.Args().First(), which, shown{full: c.Bool("full"), style: s.styleOf(s.stdout)})
		},
	}
}

func (s *state) showTrial(dir, which string, as shown) error {
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
		return usage("%s has no trial %s; see waza show %s", dir, printable(which), dir)
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

func (s *state) printTrial(dir evidence.Dir, as shown) error {
	talk, err := conversation.Read(dir, nil)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(as.conversation(talk))
	return err
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
func (s *state) listTrials(dir string, trials []evidence.Dir) error {
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
		line := fmt.Sprintf("waza show %s %s %d", shellWord(dir), shellWord(trial.Task), trial.Number)
		outcome := liveview.Paint(s.styleOf(s.stdout), class)(printable(class.With(reason)))
		if _, err := fmt.Fprintf(s.stdout, "%s  %s\n", printable(line), outcome); err != nil {
			return err
		}
	}
	return nil
}

// shown writes what was said for a person. Everything that a stranger said is set in, so
// that it cannot look like a line of ours, and holds nothing that controls a terminal.
type shown struct {
	full  bool
	style ansi.Style
	began time.Time // that times are told from; those before it have a minus
}

// What is shown of a text where not all is.
const (
	shownLines = 12
	shownBytes = 800
)

// text is a stranger's, set in.
func (s shown) text(indent, text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\r\n\t "), "\r\n", "\n")
	if text == "" {
		return ""
	}
	cut, left := text, 0
	if !s.full {
		cut, left = clip(text)
	}
	if !defence.IndentedText {
		indent = ""
	}
	var out strings.Builder
	for line := range strings.SplitSeq(cut, "\n") {
		out.WriteString(strings.TrimRight(indent+printable(line), " ") + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&out, "%s… %d more bytes; --full shows them\n", indent, left)
	}
	return out.String()
}

// clip is the beginning of a text, and how many bytes it leaves out.
func clip(text string) (string, int) {
	if !defence.ClippedText {
		return text, 0
	}
	cut := text
	if len(cut) > shownBytes {
		cut = strings.ToValidUTF8(cut[:shownBytes], "")
	}
	if lines := strings.SplitAfterN(cut, "\n", shownLines+1); len(lines) > shownLines {
		cut = strings.TrimSuffix(strings.Join(lines[:shownLines], ""), "\n")
	}
	return cut, len(text) - len(cut)
}

// line is a stranger's text on one line.
func (s shown) line(text string) string {
	const most = shownBytes / 4
	text, mark := strings.TrimSpace(text), ""
	if defence.ClippedText && !s.full && len(text) > most {
		text, mark = strings.ToValidUTF8(text[:most], ""), "…"
	}
	return printable(strings.NewReplacer("\r\n", " ", "\n", " ").Replace(text)) + mark
}
