package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
)

// maxVariants is how many runs one command makes.
const maxVariants = 64

func executorFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "executor",
		Usage:       "let agent `NAME`, or NAME=MODEL, run the eval in place of its own; several, by commas or given again, are a run each, and one table",
		DefaultText: "the eval's",
	}
}

func modelFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "model",
		Aliases:     []string{"m"},
		Usage:       "let the agent ask this `MODEL`, in place of the eval's; several are one run each with each agent",
		DefaultText: "the eval's",
	}
}

// variant is what a run has in place of the eval's executor and model; what is empty is
// the eval's.
type variant struct{ executor, model string }

// readVariants is each executor with each model of the command line, or with its own;
// without any, one variant that leaves the eval as it is.
func readVariants(c *cli.Context) ([]variant, error) {
	executors, err := listOf(c, "executor", executorName)
	if err != nil {
		return nil, err
	}
	models, err := listOf(c, "model", modelName)
	if err != nil {
		return nil, err
	}
	var all []variant
	for _, text := range executors {
		executor, model, own := strings.Cut(text, "=")
		switch {
		case own && c.IsSet("model"):
			return nil, usage("--executor %s says its model, and so does --model; give one of them", text)
		case own:
			all = append(all, variant{executor, model})
			continue
		}
		for _, model := range models {
			all = append(all, variant{executor, model})
		}
	}
	seen := map[variant]bool{}
	for _, v := range all {
		if err := v.check(); err != nil {
			return nil, err
		}
		alias := variant{adapter.Meant(v.executor), v.model}
		if seen[alias] {
			return nil, usage("--executor %s is %s, which is named too; leave out one of them", v.executor, alias.executor)
		}
		seen[alias] = true
	}
	if len(all) > maxVariants {
		return nil, usage("--executor and --model come to %d runs; %d is the most", len(all), maxVariants)
	}
	return all, nil
}

func (v variant) check() error {
	if v.executor == "" {
		return nil
	}
	if err := eval.CheckExecutor(v.executor); err != nil {
		return usage("--executor: %w", err)
	}
	return nil
}

// What the values of the flags look like.
var (
	modelName    = regexp.MustCompile(`^[\pL\pN._:/@+-]+$`)
	executorName = regexp.MustCompile(`^[\pL\pN._-]+(=[\pL\pN._:/@+-]+)?$`)
)

// maxName is how many characters a name of an executor or a model has at most. Regular
// expressions of so many letters of any script are large, and compiled at every start.
const maxName = 200

// tooLong says whether a name is, or, of an executor, one of those that = parts.
func tooLong(value string) bool {
	return slices.ContainsFunc(strings.Split(value, "="), func(name string) bool { return utf8.RuneCountInString(name) > maxName })
}

// listOf is the values of a flag that may be given again, each of which may be several;
// one empty value where it is not given.
func listOf(c *cli.Context, flag string, looks *regexp.Regexp) (values []string, err error) {
	if !c.IsSet(flag) {
		return []string{""}, nil
	}
	seen := map[string]bool{}
	for _, given := range c.StringSlice(flag) {
		for value := range strings.SplitSeq(given, ",") {
			value = strings.TrimSpace(value)
			switch {
			case tooLong(value) || !looks.MatchString(value):
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
