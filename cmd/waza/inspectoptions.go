package main

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

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
