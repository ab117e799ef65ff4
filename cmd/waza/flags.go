package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// mustBeOneOf returns an action that rejects a flag's value if it is not one of all.
func mustBeOneOf[T ~string](flag string, all []T) func(context.Context, *cli.Command, string) error {
	return func(_ context.Context, _ *cli.Command, value string) error {
		if !slices.Contains(all, T(value)) {
			return usage("--%s must be %s, not %q", flag, either(all), value)
		}
		return nil
	}
}

// mustBeFrom returns an action that rejects a flag's value if it is not from least to most.
func mustBeFrom(flag string, least, most int) func(context.Context, *cli.Command, int) error {
	return func(_ context.Context, _ *cli.Command, n int) error {
		if n < least || n > most {
			return usage("--%s must be from %d to %d", flag, least, most)
		}
		return nil
	}
}

// mustBePositive returns an action that rejects a flag's value if it is not positive.
func mustBePositive(flag string) func(context.Context, *cli.Command, time.Duration) error {
	return func(_ context.Context, _ *cli.Command, d time.Duration) error {
		if d <= 0 {
			return usage("--%s must be more than 0, such as 10s", flag)
		}
		return nil
	}
}

// under returns flags, to be listed under a heading in help.
func under(heading string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		f.(cli.CategorizableFlag).SetCategory(heading)
	}
	return flags
}

func trialsFlag(defaultText string) cli.Flag {
	return &cli.IntFlag{Name: "trials", Usage: "Run `N` trials of each task", DefaultText: defaultText, Action: mustBeFrom("trials", 1, maxTrials)}
}

// isolateFlag returns the flag that chooses whether trials run in containers, instead of the eval.
func isolateFlag(does string) cli.Flag {
	return &cli.BoolWithInverseFlag{Name: "isolate", Usage: does, DefaultText: "the eval's"}
}

func pullFlag(requires string) cli.Flag {
	return &cli.StringFlag{Name: "pull", Usage: "Pull images by `POLICY`: missing, always or never" + requires, DefaultText: "the eval's", Action: mustBeOneOf("pull", mcpconfig.PullPolicies())}
}

// offlineFlag returns the flag that keeps a command from fetching anything; [reach] applies it.
func offlineFlag() cli.Flag {
	return &cli.BoolFlag{Name: "offline", Usage: "Fetch nothing; name all images, packages and repositories that are missing, and exit with code 2"}
}

// reach is the Before of commands with [offlineFlag].
func reach(ctx context.Context, c *cli.Command) (context.Context, error) {
	switch {
	case !c.Bool("offline"):
		return ctx, nil
	case c.String("pull") == mcpconfig.PullAlways:
		return ctx, usage("--pull always pulls every image, and --offline none: give one of them")
	}
	return offline.Context(ctx), nil
}

// allowWeakFlag returns the flag that names attacks which may succeed without keeping the command from what
// does describes.
func allowWeakFlag(does, requires string) cli.Flag {
	return &cli.StringSliceFlag{Name: "allow-weak", Usage: does + " even if attack `NAME` escapes the sandbox (repeatable)" + requires, Action: func(_ context.Context, _ *cli.Command, names []string) error {
		if err := selftest.CheckNames(names); err != nil {
			return usage("--allow-weak: %w", err)
		}
		return nil
	}}
}

// duration is the value of a flag: whole seconds, or a time such as 90s.
type duration struct{ time.Duration }

func (d *duration) Set(text string) error {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		d.Duration = time.Duration(seconds) * time.Second
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("must be whole seconds, such as 300, or a time, such as 5m")
	}
	d.Duration = parsed
	return nil
}

func (d *duration) String() string { return "" }

// Get implements [cli.Value].
func (d *duration) Get() any { return d }

// upstreamFlags returns the flags of upstream waza that have no effect here, with the reasons. The reason is
// empty if nothing needs to be printed.
func upstreamFlags() map[string]string {
	return map[string]string{
		"cache":           "nothing is cached here, so every trial is run",
		"cache-dir":       "nothing is cached here",
		"suggest":         "suggestions are not made here",
		"recommend":       "recommendations are not made here",
		"interpret":       "results are not interpreted here",
		"no-cache":        "",
		"no-summary":      "",
		"snapshot":        "snapshots of trials are not made here; the run directory has all evidence",
		"redact":          "secrets are always kept out of what is written",
		"auto-file-issue": "issues are not filed here",
		"keep-workspace":  "the workspace is always kept, as workspace.tar in the evidence of each trial",
		"no-update-check": "",
	}
}

// inertFlags returns the hidden flags of upstream waza that have no effect here.
func inertFlags() (flags []cli.Flag) {
	const noEffect = "Accepted as by upstream waza, without effect"
	for _, name := range slices.Sorted(maps.Keys(upstreamFlags())) {
		if name == "cache-dir" || name == "snapshot" {
			flags = append(flags, &cli.StringFlag{Name: name, Usage: noEffect, Hidden: true})
			continue
		}
		flags = append(flags, &cli.BoolFlag{Name: name, Usage: noEffect, Hidden: true})
	}
	return flags
}

// warnOfInert prints a warning for each given flag without effect.
func warnOfInert(c *cli.Command, stderr io.Writer) {
	for _, flag := range inertFlags() {
		name := flag.Names()[0]
		if why := upstreamFlags()[name]; c.IsSet(name) && why != "" {
			fmt.Fprintf(stderr, "--%s has no effect: %s\n", name, why)
		}
	}
}
