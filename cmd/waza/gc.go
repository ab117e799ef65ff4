package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/sandbox/local"
)

// gcCommand is waza gc.
type gcCommand struct{ *state }

func (s gcCommand) command() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "Remove what crashed runs left behind",
		Description: "Removes containers that were never started, networks, volumes and build stages of runs that were\n" +
			"killed, and processes and temporary directories of runs without --isolate. What a live run owns is\n" +
			"never touched, whichever machine it runs on. Images are kept, except for guest images of other\n" +
			"builds of waza (after a day without use) and layers without a name or of other builds (after an\n" +
			"hour).",
		OnUsageError: usageError,
		Flags:        append([]cli.Flag{onFlag()}, clusterFlags()...),
		Action: func(c *cli.Context) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
			}
			if on, err := readOn(s.state, c); err != nil || on != "" {
				if err == nil {
					err = gcCluster(c.Context, s.state, clusterOf(c))
				}
				return err
			}
			localErr := s.gcLocal(c.Context)
			if err := s.gcEngine(c.Context); err != nil {
				return err
			}
			return localErr
		},
	}
}

func (s gcCommand) gcLocal(ctx context.Context) error {
	g, err := local.GC(ctx, "")
	if len(g.Runs) == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on this machine; %d live run(s)\n", len(g.Live))
	} else {
		fmt.Fprintf(s.stdout, "ended %d process(es) and removed the directories of %d dead run(s) without --isolate; %d live run(s)\n",
			g.Processes, len(g.Runs), len(g.Live))
	}
	if err != nil {
		s.printError(err)
		return &exitError{exitInfra, nil}
	}
	return nil
}

func (s gcCommand) gcEngine(ctx context.Context) error {
	g, err := containers.GC(ctx)
	if err != nil {
		return &exitError{exitInfra, fmt.Errorf("cannot look for containers: %w", err)}
	}
	if g.Guests > 0 {
		fmt.Fprintf(s.stdout, "removed %d guest image(s) of old builds\n", g.Guests)
	}
	if len(g.Runs) == 0 && g.Images == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on the engine; %d live run(s)\n", len(g.Live))
		return nil
	}
	fmt.Fprintf(s.stdout, "removed %d container(s), %d network(s), %d volume(s), %d unnamed image(s) of %d dead run(s); %d live run(s)\n",
		g.Containers, g.Networks, g.Volumes, g.Images, len(g.Runs), len(g.Live))
	return nil
}
