package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results/record"
	"github.com/waza-isolate/waza/runner"
)

// recordCommand is waza record.
func recordCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "record",
		Usage:     "Make a cassette of a run",
		ArgsUsage: "RUN",
		Description: "Writes what the servers of RUN were asked, and what they answered, to the files of a cassette, which " +
			"waza run --cassette plays in place of the servers. It prints what is left out, and writes nothing if " +
			"something cannot be played. The same run is the same bytes; a cassette that is in the directory is replaced.\n\n" +
			"With --again it runs the eval of RUN again, with real servers, and prints what differs from the cassette in " +
			"DIR, which stays as it is: what was asked and answered otherwise, by server and task. The exit code is 1 " +
			"if anything differs.\n\nRUN is a run directory, or latest.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Write the cassette to directory `DIR`"},
			&cli.BoolFlag{Name: "again", Usage: "Run the eval again and print what differs from the cassette in DIR"},
			&cli.BoolFlag{Name: "allow-host-hooks", Usage: "Allow hooks with host: true to run on this machine; with --again"},
			allowEnvFlag(),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, 1, "one run directory"); err != nil {
				return err
			}
			to := c.String("output")
			if to == "" {
				return usage("give --output: the directory of the cassette, such as cassette")
			}
			dir, err := runNamed(c.Args().First())
			if err != nil {
				return err
			}
			if c.Bool("again") {
				return recordAgain(ctx, s, c, to)
			}
			return recordRun(s, dir, to)
		},
	}
}

// cassetteOfRun makes a cassette from a run.
func cassetteOfRun(s *state, dir string) (*cassette.Cassette, error) {
	trials, err := runner.Trials(dir)
	if err != nil {
		return nil, withExitCode(err)
	}
	return cassetteOf(s, dir, trials)
}

// cassetteOf makes a cassette from trials of a run, and prints what is left out.
func cassetteOf(s *state, dir string, trials []evidence.Dir) (*cassette.Cassette, error) {
	made, left, err := record.Trials(trials)
	for _, line := range left {
		fmt.Fprintln(s.stderr, "not in the cassette: "+text.Inert(line))
	}
	if err != nil {
		return nil, usage("%s: %w", dir, err)
	}
	return made, nil
}

// recordAgain runs a run again without a cassette, and compares the new record with the cassette in a
// directory.
func recordAgain(ctx context.Context, s *state, c *cli.Command, with string) error {
	old, err := cassette.Read(with)
	if err != nil {
		return usage("%w", err)
	}
	dir := filepath.Join(runsDir, runner.NewID("again"))
	ran := rerun(ctx, s, c, dir, "", func(q *runner.Request) { q.Playing = eval.Playing{Play: []cassette.Kind{eval.PlayNone}} })
	if ran != nil && exitOf(ran).code != exitFailed {
		return ran
	}
	made, err := cassetteOfRun(s, dir)
	if err != nil {
		return err
	}
	drift := record.Drift(old, made)
	if len(drift) == 0 {
		fmt.Fprintf(s.stdout, "nothing differs from %s\n", with)
		return ran
	}
	for _, line := range drift {
		fmt.Fprintln(s.stdout, text.Inert(line))
	}
	fmt.Fprintf(s.stdout, "%s from %s; to take the new answers: waza record %s -o %s\n",
		text.Count(len(drift), "difference"), with, text.ShellWord(dir), text.ShellWord(with))
	return exitWith(exitFailed)
}

// recordRun makes a cassette from a run and writes it.
func recordRun(s *state, dir, to string) error {
	of, err := runner.ReadRecord(dir)
	if err != nil {
		return usage("%w", err)
	}
	made, err := cassetteOfRun(s, dir)
	if err != nil {
		return err
	}
	if err := made.Write(to); err != nil {
		return usage("%w", err)
	}
	fmt.Fprintf(s.stdout, "%s holds %s\nplay it with: waza run %s --cassette %s\n",
		to, inCassette(made), text.ShellWord(of.Eval.Path), text.ShellWord(to))
	return nil
}

// inCassette counts the contents of a cassette, such as "2 servers, with 9 answers".
func inCassette(c *cassette.Cassette) string {
	var said []string
	entries := 0
	for _, one := range append(slices.Collect(maps.Values(c.Tasks)), c) {
		for _, sides := range one.Sides {
			for _, side := range sides {
				entries += len(side.Entries)
			}
		}
	}
	for _, kind := range cassette.Kinds() {
		if n := len(c.Names(kind)); n > 0 {
			said = append(said, text.Count(n, strings.TrimSuffix(string(kind), "s")))
		}
	}
	return strings.Join(said, " and ") + ", with " + text.Count(entries, "answer")
}

// cassetteFlags returns the flags that select what a run plays from a cassette.
func cassetteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "cassette", Usage: "Play the cassette in `DIR`; it takes the place of servers, models and commands", DefaultText: "the eval's"},
		&cli.StringSliceFlag{Name: "play", Usage: "Play only `KIND` of the cassette (repeatable): servers, models or commands; or none, not even of the eval's", Action: func(_ context.Context, _ *cli.Command, kinds []string) error {
			for _, kind := range kinds {
				if !slices.Contains(eval.Playable(), cassette.Kind(kind)) || kind == string(eval.PlayNone) && len(kinds) > 1 {
					return usage("--play must be %s, not %q", either(eval.Playable()), kind)
				}
			}
			return nil
		}},
		&cli.StringFlag{Name: "on-miss", Usage: "On a miss of the cassette, `MODE`: fail or live; live asks the real server", DefaultText: "fail", Action: mustBeOneOf("on-miss", []string{eval.MissFail, eval.MissLive})},
	}
}

func playingOf(c *cli.Command) eval.Playing {
	p := eval.Playing{Cassette: c.String("cassette"), OnMiss: c.String("on-miss")}
	for _, kind := range c.StringSlice("play") {
		p.Play = append(p.Play, cassette.Kind(kind))
	}
	return p
}
