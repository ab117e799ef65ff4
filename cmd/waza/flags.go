package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// permute moves the flags of a command before its arguments. The library stops parsing flags at
// the first argument, so that "waza run eval.yaml --isolate" would silently run without
// isolation. Everything that starts with "-" is treated as a flag, so that unknown flags are
// errors; after "--" everything is an argument.
func permute(app *cli.App, args []string) ([]string, error) {
	at := slices.IndexFunc(args[min(1, len(args)):], func(a string) bool { return !strings.HasPrefix(a, "-") }) + 1
	if at == 0 {
		return args, nil
	}
	command := app.Command(args[at])
	if command == nil {
		return args, nil
	}
	if at+1 < len(args) {
		below := slices.IndexFunc(command.Subcommands, func(c *cli.Command) bool { return c.HasName(args[at+1]) })
		if below >= 0 {
			command, at = command.Subcommands[below], at+1
		}
	}
	var flags, rest []string
	for i := at + 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--help" || arg == "-h": // the library takes an argument of --help for a topic
			return append(slices.Clone(args[:at+1]), arg), nil
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case !strings.HasPrefix(arg, "-") || arg == "-":
			rest = append(rest, arg)
		case takesValue(command, arg):
			if i+1 == len(args) {
				return nil, usage("flag %s needs a value; see waza %s --help", arg, strings.Join(args[1:at+1], " "))
			}
			flags = append(flags, arg, args[i+1])
			i++
		default:
			flags = append(flags, arg)
		}
	}
	return slices.Concat(args[:at+1], flags, []string{"--"}, rest), nil
}

// takesValue reports whether arg is a flag of command that takes the next argument as its
// value.
func takesValue(command *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, flag := range command.Flags {
		if !slices.Contains(flag.Names(), name) {
			continue
		}
		_, isBool := flag.(*cli.BoolFlag)
		return !isBool
	}
	return false
}

// mustBeOneOf returns an action that rejects a flag's value if it is not one of all.
func mustBeOneOf[T ~string](flag string, all []T) func(*cli.Context, string) error {
	return func(_ *cli.Context, value string) error {
		if !slices.Contains(all, T(value)) {
			return usage("--%s must be %s, not %q", flag, either(all), value)
		}
		return nil
	}
}

// mustBeFrom returns an action that rejects a flag's value if it is not from least to most.
func mustBeFrom(flag string, least, most int) func(*cli.Context, int) error {
	return func(_ *cli.Context, n int) error {
		if n < least || n > most {
			return usage("--%s must be from %d to %d", flag, least, most)
		}
		return nil
	}
}

// mustBePositive returns an action that rejects a flag's value if it is not more than 0.
func mustBePositive(flag string) func(*cli.Context, time.Duration) error {
	return func(_ *cli.Context, d time.Duration) error {
		if d <= 0 {
			return usage("--%s must be more than 0, such as 10s", flag)
		}
		return nil
	}
}

func trialsFlag(defaultText string) cli.Flag {
	return &cli.IntFlag{Name: "trials", Usage: "Run `N` trials of each task", DefaultText: defaultText, Action: mustBeFrom("trials", 1, maxTrials)}
}

func pullFlag(requires string) cli.Flag {
	return &cli.StringFlag{Name: "pull", Usage: "Pull images by `POLICY`: missing, always or never" + requires, DefaultText: "the eval's", Action: mustBeOneOf("pull", mcpconfig.PullPolicies())}
}

// allowWeakFlag returns the flag for attacks despite which a command does what does says.
func allowWeakFlag(does, requires string) cli.Flag {
	return &cli.StringSliceFlag{Name: "allow-weak", Usage: does + " even if attack `NAME` escapes the sandbox (repeatable)" + requires, Action: func(_ *cli.Context, names []string) error {
		if err := selftest.CheckNames(names); err != nil {
			return usage("--allow-weak: %w", err)
		}
		return nil
	}}
}

// once is the value of a flag that may be given only once. The library silently takes the last
// of several.
type once struct {
	value string
	set   bool
}

func (o *once) Set(value string) error {
	if o.set {
		return errors.New("the flag can be given only once; put all servers into one file")
	}
	o.value, o.set = value, true
	return nil
}

func (o *once) String() string { return o.value }

// duration is the value of a flag: whole seconds, or a time such as 90s.
type duration struct{ time.Duration }

func (d *duration) Set(text string) error {
	if seconds, err := time.ParseDuration(text + "s"); err == nil && !strings.ContainsAny(text, ".eE-") {
		d.Duration = seconds
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

// upstreamFlags returns the flags of upstream waza that have no effect here, and why; empty if
// nothing needs to be printed.
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

// warnOfInert prints for each given flag without effect that it has none.
func warnOfInert(c *cli.Context, stderr io.Writer) {
	for _, flag := range inertFlags() {
		name := flag.Names()[0]
		if why := upstreamFlags()[name]; c.IsSet(name) && why != "" {
			fmt.Fprintf(stderr, "--%s has no effect: %s\n", name, why)
		}
	}
}
