package main

import (
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
)

const reportFile = "report.html"

func (s *state) reportCommand() *cli.Command {
	return &cli.Command{
		Name:         "report",
		Usage:        "write the report of a run, a page of HTML",
		ArgsUsage:    "RUN",
		OnUsageError: usageError,
		Flags:        []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("report takes a run directory; see waza report --help")
			}
			dir := c.Args().First()
			if _, err := runner.ReadRecord(dir); err != nil {
				return usage("%w", err)
			}
			file := c.String("output")
			if file == "" {
				file = filepath.Join(dir, reportFile)
			}
			err := evidence.WriteFileBy(file, func(w io.Writer) error { return runner.WriteReport(w, dir) })
			if err != nil {
				return infra(err)
			}
			return nil
		},
	}
}
