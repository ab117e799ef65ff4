package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// showCommand is waza show.
func showCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "Show what happened in a trial",
		ArgsUsage:   "RUN [TASK [N]]",
		Description: "Prints the prompt, the answers of models, the calls on the wire with their results, other events, and the verdicts. If several trials of RUN match, they are listed. TASK/N is the same as TASK N. RUN is a run directory, or latest. --format json prints an array of all trials that match.",
		Flags: []cli.Flag{
			formatFlag(formatDefault, formatJSON),
			&cli.BoolFlag{Name: "full", Aliases: []string{"v"}, Usage: "Do not shorten texts"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, 3, "a run directory, and the trial to show"); err != nil {
				return err
			}
			dir, err := runNamed(c.Args().First())
			if err != nil {
				return err
			}
			which := strings.Join(c.Args().Slice()[1:], "/")
			return showTrial(s, dir, which, formatOf(c), terminal.Shown{Full: c.Bool("full"), Width: width(s.stdout), Style: s.styleOf(s.stdout)})
		},
	}
}

func showTrial(s *state, dir, which string, f format, as terminal.Shown) error {
	if _, err := runner.ReadRecord(dir); err != nil {
		return usage("%w", err)
	}
	found, err := trialsNamed(dir, which)
	switch {
	case err != nil:
		return withExitCode(err)
	case len(found) == 0 && which == "":
		return usage("%s has no trial that has ended", dir)
	case len(found) == 0:
		return noTrial(dir, which)
	}
	if f == formatJSON {
		return withExitCode(printTrialsAsJSON(s, found))
	}
	if len(found) == 1 {
		return withExitCode(printTrial(s, found[0], as))
	}
	return withExitCode(listTrials(s, dir, found))
}

func printTrial(s *state, dir evidence.Dir, as terminal.Shown) error {
	talk, err := view.ReadConversation(dir)
	if err != nil {
		return err
	}
	return terminal.Conversation(s.stdout, talk, as)
}

// trialJSON is a trial as JSON. What has the name of a file of its directory is as there.
type trialJSON struct {
	Trial        evidence.Trial      `json:"trial"`
	Verdicts     evidence.Verdicts   `json:"verdicts"`
	Turns        []turnJSON          `json:"turns"` // of models called through the gateway
	Calls        []evidence.Call     `json:"calls"`
	Events       []evidence.Event    `json:"events"`
	Narration    *evidence.Narration `json:"narration,omitempty"`
	Contradicted []string            `json:"misreported"`
	Gaps         []string            `json:"missing"`
}

// turnJSON is an answer of a model.
type turnJSON struct {
	Call evidence.ModelCall `json:"call"` // a line of models.jsonl, without request and response
	Text string             `json:"text"`
	Uses []dialect.Use      `json:"tool_uses"`
}

// printTrialsAsJSON prints an array of trials, of which it holds one at a time in memory.
func printTrialsAsJSON(s *state, trials []evidence.Dir) (damaged error) {
	between := "[\n"
	for _, dir := range trials {
		talk, err := view.ReadConversation(dir)
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		data, err := evidence.MarshalIndent(asJSON(talk))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(s.stdout, between, strings.TrimSuffix(string(data), "\n")); err != nil {
			return err
		}
		between = ",\n"
	}
	_, err := fmt.Fprintln(s.stdout, strings.TrimSuffix(between, ",\n")+"\n]")
	return errors.Join(damaged, err)
}

func asJSON(c view.Conversation) trialJSON {
	t := trialJSON{
		Trial: c.Trial, Verdicts: c.Verdicts, Turns: []turnJSON{}, Calls: []evidence.Call{}, Events: append([]evidence.Event{}, c.Events...),
		Narration: c.Narration, Contradicted: listed(c.Contradicted), Gaps: listed(c.Gaps),
	}
	for _, step := range c.Steps {
		switch {
		case step.Turn != nil:
			turn := turnJSON{step.Turn.ModelCall, step.Turn.Text, []dialect.Use{}}
			for _, use := range step.Turn.Uses {
				turn.Uses = append(turn.Uses, use.Use)
			}
			t.Turns = append(t.Turns, turn)
		case step.Call != nil:
			t.Calls = append(t.Calls, *step.Call)
		}
	}
	return t
}

// trialsNamed returns the trials of a run that which selects by TASK or TASK/N; all for "".
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

// noTrial returns the mistake of naming a trial that a run lacks.
func noTrial(dir, which string) error {
	all, _ := trialsNamed(dir, "") // read before
	task, _, _ := strings.Cut(which, "/")
	var names []string
	for _, trial := range all {
		names = append(names, filepath.Base(filepath.Dir(string(trial))))
	}
	if near := strictyaml.Nearest(task, slices.Compact(names)); near != "" && near != task {
		return usage("%s has no trial %s; did you mean %s?", dir, text.Inert(which), text.Inert(near))
	}
	return usage("%s has no trial %s; see waza show %s", dir, text.Inert(which), dir)
}

// listTrials prints a line for each trial, with the command that shows it.
func listTrials(s *state, dir string, trials []evidence.Dir) (damaged error) {
	for _, d := range trials {
		trial, err := d.Trial()
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		verdicts, err := d.Verdicts()
		if err != nil { // not graded, or unreadable
			verdicts = evidence.Verdicts{}
		}
		class, reason, _ := trial.Outcome(verdicts)
		line := fmt.Sprintf("waza show %s %s %d", text.ShellWord(dir), text.ShellWord(trial.Task), trial.Number)
		outcome := terminal.Paint(s.styleOf(s.stdout), view.StateOf(class))(text.Inert(view.EndedAs(class, reason)))
		if _, err := fmt.Fprintf(s.stdout, "%s  %s\n", text.Inert(line), outcome); err != nil {
			return err
		}
	}
	return damaged
}
