package main

import (
	"cmp"
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
			"hour). With --format json, machine and engine (or cluster) have the ids of dead runs and live ones, and how " +
			"much was removed.",
		Flags: append([]cli.Flag{onFlag(), formatFlag(formatDefault, formatJSON)}, clusterFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
			}
			if on, err := readOn(s, c); err != nil || on != "" {
				if err == nil {
					err = gcCluster(ctx, s, clusterOf(c), formatOf(c))
				}
				return err
			}
			return collectGarbage(ctx, s, formatOf(c))
		},
	}
}

// collected lists what gc removed. A part that failed is nil.
type collected struct {
	Machine *local.Garbage      `json:"machine,omitempty"`
	Engine  *containers.Garbage `json:"engine,omitempty"`
}

// collectGarbage removes what dead runs left on this machine and on the engine.
func collectGarbage(ctx context.Context, s *state, f format) error {
	var removed collected
	machine, localErr := local.GC("")
	machine.Runs, machine.Live = listed(machine.Runs), listed(machine.Live)
	removed.Machine = &machine
	if f == formatDefault {
		printLocalGarbage(s, machine)
	}
	if localErr != nil {
		s.printError(localErr)
		localErr = &exitError{exitInfra, nil}
	}
	engine, err := containers.GC(ctx)
	switch {
	case err != nil:
		err = &exitError{exitInfra, fmt.Errorf("cannot clean up the engine: %w", err)}
	case f == formatDefault:
		printEngineGarbage(s, engine)
	default:
		engine.Runs, engine.Live = listed(engine.Runs), listed(engine.Live)
		removed.Engine = &engine
	}
	if f == formatJSON {
		err = cmp.Or(err, s.printValue(removed))
	}
	return cmp.Or(err, localErr)
}

// listed returns names as a list that is encoded as [] in JSON if it is empty.
func listed(names []string) []string { return append([]string{}, names...) }

func printLocalGarbage(s *state, g local.Garbage) {
	if len(g.Runs) == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on this machine; %s\n", text.Count(len(g.Live), "live run"))
		return
	}
	fmt.Fprintf(s.stdout, "ended %s and removed the directories of %s without --isolate; %s\n",
		text.Count(g.Processes, "program"), text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
}

func printEngineGarbage(s *state, g containers.Garbage) {
	if g.Guests > 0 {
		fmt.Fprintf(s.stdout, "removed %s of old builds\n", text.Count(g.Guests, "guest image"))
	}
	if len(g.Runs) == 0 && g.Images == 0 {
		fmt.Fprintf(s.stdout, "nothing to remove on the engine; %s\n", text.Count(len(g.Live), "live run"))
		return
	}
	fmt.Fprintf(s.stdout, "removed %s, %s, %s and %s of %s; %s\n", text.Count(g.Containers, "container"), text.Count(g.Networks, "network"),
		text.Count(g.Volumes, "volume"), text.Count(g.Images, "unnamed image"), text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
}
