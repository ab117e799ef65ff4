package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox/local"
)

// gcCommand is waza gc.
func gcCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "Remove what crashed runs left behind",
		Description: "Removes containers that were never started, networks, volumes and build stages of runs that were " +
			"killed, and temporary directories and (on Linux) processes of runs without --isolate. What a live run owns is " +
			"never touched, whichever machine it runs on. Images are kept, except for guest images of other " +
			"builds of waza (after a day without use) and layers without a name or of other builds (after an " +
			"hour).",
		Flags: append([]cli.Flag{onFlag()}, clusterFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
			}
			if on, err := readOn(s, c); err != nil || on != "" {
				if err == nil {
					err = gcCluster(ctx, s, clusterOf(c))
				}
				return err
			}
			localErr := gcLocal(s)
			if err := gcEngine(ctx, s); err != nil {
				return err
			}
			return localErr
		},
	}
}

func gcLocal(s *state) error {
	g, err := local.GC("")
	if len(g.Runs) == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on this machine; %s\n", text.Count(len(g.Live), "live run"))
	} else {
		fmt.Fprintf(s.stdout, "ended %s and removed the directories of %s without --isolate; %s\n",
			text.Count(g.Processes, "program"), text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
	}
	if err != nil {
		s.printError(err)
		return &exitError{exitInfra, nil}
	}
	return nil
}

func gcEngine(ctx context.Context, s *state) error {
	g, err := containers.GC(ctx)
	if err != nil {
		return &exitError{exitInfra, fmt.Errorf("cannot clean up the engine: %w", err)}
	}
	if g.Guests > 0 {
		fmt.Fprintf(s.stdout, "removed %s of old builds\n", text.Count(g.Guests, "guest image"))
	}
	if len(g.Runs) == 0 && g.Images == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on the engine; %s\n", text.Count(len(g.Live), "live run"))
		return nil
	}
	fmt.Fprintf(s.stdout, "removed %s, %s, %s and %s of %s; %s\n", text.Count(g.Containers, "container"), text.Count(g.Networks, "network"),
		text.Count(g.Volumes, "volume"), text.Count(g.Images, "unnamed image"), text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
	return nil
}
