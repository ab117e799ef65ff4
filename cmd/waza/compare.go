package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// compareCommand is waza compare.
func compareCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:        "compare",
		Usage:       "Compare finished runs",
		ArgsUsage:   "RUN RUN...",
		Description: "RUN is a run directory, latest, or a results.json. Each further run is compared with the first, over the tasks that both have. A difference is shown only where chance does not explain it; regressions come first.",
		Flags:       []cli.Flag{comparisonFlag(), formatFlag(formatDefault, formatJSON, formatGitHub)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 2, anyNumber, "two runs or more"); err != nil {
				return err
			}
			var entries []results.Entry
			paths, err := runsNamed(c.Args().Slice())
			if err != nil {
				return err
			}
			for _, path := range paths {
				entry, err := runner.ReadEntry(path)
				if err != nil {
					return usage("%w", err)
				}
				entries = append(entries, entry)
			}
			comparison := results.Compare(entries)
			var worse []remark
			for _, d := range view.Differences(comparison.Differences) {
				if d.Change.ForTheWorse() {
					worse = append(worse, remarkOn(d))
				}
			}
			s.workflow.remark(github.Warning, "compare", worse, paths...)
			return s.compare(comparison, formatOf(c), c.String("output"))
		},
	}
}

func comparisonFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Write the comparison as JSON to `FILE`"}
}
