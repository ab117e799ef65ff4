package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
)

func (s *state) gcCommand() *cli.Command {
	return &cli.Command{
		Name:         "gc",
		Usage:        "remove what dead runs left on the engine",
		Description:  "Containers end with their runner. What a killed runner can leave are containers that were\nnever started, networks, volumes and the stages of an image's build. gc finds them by label and never touches what a live\nrun owns, on this machine or another.",
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage("gc takes no arguments")
			}
			g, err := containers.GC(c.Context)
			if err != nil {
				return &exitError{exitInfra, err}
			}
			if len(g.Runs) == 0 && g.Images == 0 {
				fmt.Fprintf(s.stdout, "nothing to remove; %d live run(s)\n", len(g.Live))
				return nil
			}
			fmt.Fprintf(s.stdout, "removed %d container(s), %d network(s), %d volume(s), %d unnamed image(s) of %d dead run(s); %d live run(s)\n",
				g.Containers, g.Networks, g.Volumes, g.Images, len(g.Runs), len(g.Live))
			return nil
		},
	}
}
