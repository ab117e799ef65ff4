package main

import (
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner/spec"
)

// maxVariants is how many runs one command makes.
const maxVariants = 64

func executorFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "executor",
		Usage:       "let agent `NAME` run the eval, in place of the eval's; several, by commas or given again, are one run each, and one table",
		DefaultText: "the eval's",
	}
}

func modelFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "model",
		Usage:       "let the agent ask this `MODEL`, in place of the eval's; several are one run each with each agent",
		DefaultText: "the eval's",
	}
}

// variant is what a run has in place of the eval's executor and model; what is empty is
// the eval's.
type variant struct{ executor, model string }

// readVariants is each executor with each model of the command line; without any, one
// variant that leaves the eval as it is.
func readVariants(c *cli.Context) ([]variant, error) {
	executors, err := listOf(c, "executor")
	if err != nil {
		return nil, err
	}
	models, err := listOf(c, "model")
	if err != nil {
		return nil, err
	}
	var all []variant
	for _, executor := range executors {
		if executor != "" {
			if err := spec.CheckExecutor(executor); err != nil {
				return nil, usage("--executor: %w", err)
			}
		}
		for _, model := range models {
			all = append(all, variant{executor, model})
		}
	}
	if len(all) > maxVariants {
		return nil, usage("--executor and --model come to %d runs; %d is the most", len(all), maxVariants)
	}
	return all, nil
}

// modelName is what a model may be called.
var modelName = regexp.MustCompile(`^[\pL\pN._:/@+-]{1,200}$`)

// listOf is the values of a flag that may be given again, each of which may be several;
// one empty value where it is not given.
func listOf(c *cli.Context, flag string) (values []string, err error) {
	if !c.IsSet(flag) {
		return []string{""}, nil
	}
	seen := map[string]bool{}
	for _, given := range c.StringSlice(flag) {
		for value := range strings.SplitSeq(given, ",") {
			value = strings.TrimSpace(value)
			switch {
			case !modelName.MatchString(value):
				return nil, usage("--%s: %q is no name", flag, value)
			case seen[value]:
				return nil, usage("--%s names %s twice", flag, value)
			}
			seen[value] = true
			values = append(values, value)
		}
	}
	return values, nil
}
