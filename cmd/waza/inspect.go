package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

const (
	defaultWatch    = 5 * time.Second
	defaultPatience = 30 * time.Second
)

// inspectCommand is waza inspect.
type inspectCommand struct{ *state }

func (s inspectCommand) command() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "start MCP servers alone, and tell what they list and do",
		ArgsUsage: "FILE|NAME|URL | -- COMMAND [ARGS]",
		Description: "FILE is an eval, or a client's file such as mcp.json; NAME is a server of eval.yaml, mcp.json\n" +
			"or .mcp.json here; COMMAND is as a client would start it: npx, uvx, docker run, or a program of --image.\n" +
			"Each server is started in a container of its own, asked for its lists, left alone for a while, and\n" +
			"ended. Nothing that it lists is called, read or got unless that is asked for.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "isolate", Usage: "run servers in containers; needed for all that are not remote"},
			&cli.StringSliceFlag{Name: "server", Usage: "inspect only the server of this `NAME`; may be given again"},
			&cli.StringFlag{Name: "image", Usage: "run COMMAND, and servers of a client's file that have none, in this `IMAGE`"},
			&cli.DurationFlag{Name: "for", Value: defaultWatch, Usage: "watch each server for this `TIME` when it has listed all"},
			&cli.DurationFlag{Name: "patience", Value: defaultPatience, Usage: "`TIME` that one list, or one exercise, may take"},
			&cli.StringFlag{Name: "call", Usage: "call this `TOOL`"},
			&cli.StringFlag{Name: "get", Usage: "get this `PROMPT`"},
			&cli.StringFlag{Name: "args", Usage: "arguments of --call or --get, as a `JSON` object"},
			&cli.StringFlag{Name: "read", Usage: "read the resource of this `URI`"},
			&cli.StringFlag{Name: "out", Usage: "new `DIR` for evidence (default: .waza/inspections/<time>-<name>)"},
			&cli.StringFlag{Name: "pull", Usage: "pull images by this `POLICY`: missing, always or never", DefaultText: "the eval's"},
			&cli.StringSliceFlag{Name: "allow-weak", Usage: "inspect although the attack `NAME` gets out of the sandbox; may be given again"},
			&cli.BoolFlag{Name: "pin", Usage: "keep in waza.lock what each server lists, so that a later run tells what is another"},
			&cli.BoolFlag{Name: "full", Usage: "show descriptions and schemas whole"},
			formatFlag(formatDefault, formatJSON),
		},
		Action: func(c *cli.Context) error {
			o, err := readInspectOptions(c)
			if err != nil {
				return err
			}
			q, err := s.newInspection(c, o)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c.Context, s.stderr)
			defer stop()
			report, err := runner.Inspect(ctx, q)
			if report.Ended.IsZero() {
				return infra(err)
			}
			return s.inspected(report, err, q.Dir, o)
		},
	}
}

// newInspection asks for the servers that the command line names to be inspected.
func (s inspectCommand) newInspection(c *cli.Context, o inspectOptions) (runner.Inspection, error) {
	t, err := s.findTarget(c, o)
	if err != nil {
		return runner.Inspection{}, err
	}
	q := runner.Inspection{
		ID: runner.NewID("inspect " + t.names[0]), Eval: t.eval, Servers: t.names, Source: t.source, Dir: o.out,
		Isolated: o.isolate, Pull: o.pull, Pin: o.pin, Watch: o.watch, Patience: o.patience, Exercises: o.exercises, AllowWeak: o.allowWeak,
		Host: s.host(runOptions{}, nil),
	}
	for _, secret := range t.secrets {
		q.Host.Secrets.Add(secret)
	}
	if q.Dir == "" {
		q.Dir = filepath.Join(".waza", "inspections", q.ID)
	}
	if len(o.exercises) > 0 && len(t.names) > 1 {
		return q, usage("--%s is for one server; choose it with --server: %s", o.exercises[0].What, strings.Join(t.names, ", "))
	}
	return q, isNewOrEmpty(q.Dir, "--out")
}

// inspected prints the report of an inspection into dir, whose error may be of servers that
// could not be pinned.
func (s inspectCommand) inspected(report inspection.Report, err error, dir string, o inspectOptions) error {
	var printed error
	if o.format == formatJSON {
		printed = copyTo(s.stdout, dir, inspection.File)
	} else {
		printed = inspection.Print(s.stdout, report, inspection.Options{Width: width(s.stdout), Full: o.full, Dir: dir})
	}
	if err := errors.Join(printed, err); err != nil {
		return infra(err)
	}
	if slices.ContainsFunc(report.Servers, func(s inspection.Server) bool { return s.Failed != "" }) {
		return exitWith(exitInfra)
	}
	return nil
}

// isNewOrEmpty holds that a directory can take what a flag has written there.
func isNewOrEmpty(dir, flag string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return usage("%s: %w", flag, err)
	}
	return usage("%s: %s is not empty; name a new directory", flag, dir)
}

// inspectOptions is the command line of waza inspect, but for what is inspected.
type inspectOptions struct {
	isolate, pin    bool
	full            bool
	servers         []string
	image, pull     string
	watch, patience time.Duration
	exercises       []inspection.Exercise
	out             string
	allowWeak       []string
	format          format
}

// maxWatch bounds how long a server is watched, and waited for.
const maxWatch = 24 * time.Hour

func readInspectOptions(c *cli.Context) (o inspectOptions, err error) {
	o = inspectOptions{
		isolate: c.Bool("isolate"), pin: c.Bool("pin"), full: c.Bool("full"), servers: c.StringSlice("server"),
		image: c.String("image"), pull: c.String("pull"), watch: c.Duration("for"), patience: c.Duration("patience"),
		out: c.String("out"), allowWeak: c.StringSlice("allow-weak"),
	}
	if o.format, err = formatOf(c, formatDefault, formatJSON); err != nil {
		return o, err
	}
	for _, flag := range []string{"for", "patience"} {
		if d := c.Duration(flag); d <= 0 || d > maxWatch {
			return o, usage("--%s must be more than 0 and at most %v, such as 10s", flag, maxWatch)
		}
	}
	if c.IsSet("pull") && !slices.Contains(mcpconfig.PullPolicies(), o.pull) {
		return o, usage("--pull must be missing, always or never")
	}
	if err := selftest.CheckNames(o.allowWeak); err != nil {
		return o, usage("--allow-weak: %w", err)
	}
	o.exercises, err = readExercises(c)
	return o, err
}

func readExercises(c *cli.Context) (all []inspection.Exercise, err error) {
	taking := 0 // that take --args
	for _, what := range []string{inspection.Call, inspection.Get, inspection.Read} {
		if !c.IsSet(what) {
			continue
		}
		if c.String(what) == "" {
			return nil, usage("--%s needs a name", what)
		}
		all = append(all, inspection.Exercise{What: what, Name: c.String(what)})
		if what != inspection.Read {
			taking++
		}
	}
	if !c.IsSet("args") {
		return all, nil
	}
	if taking != 1 {
		return nil, usage("--args goes with one --call, or one --get")
	}
	arguments := json.RawMessage(c.String("args"))
	var object map[string]json.RawMessage
	if json.Unmarshal(arguments, &object) != nil || object == nil {
		return nil, usage(`--args must be a JSON object, such as {"path": "/data"}`)
	}
	all[0].Arguments = arguments
	return all, nil
}
