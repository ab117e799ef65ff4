package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/runner"
)

// mergeCommand is waza merge.
func mergeCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "Merge the shards of a run",
		ArgsUsage: "RUN...",
		Description: "Makes one run directory of those that waza run --shard has made, with results, report and digests as " +
			"if one process had run all trials. The shards stay as they are.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "run-dir", Usage: "Write the merged run to the new directory `DIR` (default: .waza/runs/<time>-<name>-<random>)"},
			outputFlag(), formatFlag(formatDefault, formatJSON, formatGitHub),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, anyNumber, "the run directories of all shards"); err != nil {
				return err
			}
			dirs, err := runsNamed(c.Args().Slice())
			if err != nil {
				return err
			}
			out, err := runner.Merge(runner.Merging{Shards: dirs, Dir: c.String("run-dir")})
			if out.Dir == "" {
				return withExitCode(err)
			}
			return printGraded(s, out, err, formatOf(c), c.String("output"))
		},
	}
}

// shardValue is the value of --shard: I/N.
type shardValue struct{ *runner.Shard }

func (v *shardValue) Set(value string) error {
	number, of, _ := strings.Cut(value, "/")
	i, err := strconv.Atoi(number)
	n, errOf := strconv.Atoi(of)
	if err != nil || errOf != nil || i < 1 || n < i || n > maxTrials {
		return errors.New("must be I/N with I from 1 to N, such as 1/4")
	}
	v.Shard = &runner.Shard{Number: i, Of: n}
	return nil
}

// Get implements [cli.Value].
func (v *shardValue) Get() any { return v }

func (v *shardValue) String() string {
	if v.Shard == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", v.Number, v.Of)
}
