package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

const (
	maxDiscovered = 100_000 // files that --discover looks at
	maxVariants   = 64      // runs of one eval, each with a different agent or model
)

// targets are the eval files that a command line is about: the file or directory that it
// names, or the skill; without a name those of the project.
func (s runCommand) targets(c *cli.Context) ([]string, error) {
	if c.NArg() > 1 {
		return nil, usage("run takes one eval, directory or skill; see waza run --help")
	}
	project, err := eval.FindProject(".")
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	name := c.Args().First()
	if c.Bool("discover") {
		return s.discover(c, cmp.Or(name, "."), project)
	}
	if name == "" {
		return evalsOf(project)
	}
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return []string{name}, nil
	}
	var looked []string
	first := func(candidates ...string) string {
		looked = append(looked, candidates...)
		i := slices.IndexFunc(candidates, isFile)
		if i < 0 {
			return ""
		}
		return candidates[i]
	}
	file := project.EvalFile()
	if err == nil {
		if found := first(filepath.Join(name, file), filepath.Join(name, "evals", file), filepath.Join(name, "tests", file)); found != "" {
			return []string{found}, nil
		}
		return nil, usage("directory %s has no eval: there is no %s; --discover looks further down", name, strings.Join(looked, ", "))
	}
	if !filepath.IsLocal(name) {
		return nil, usage("%s: there is no such file", name)
	}
	evals, skill := relative(filepath.Join(project.Dir, project.EvalsDir())), relative(filepath.Join(project.Dir, project.SkillsDir(), name))
	if found := first(filepath.Join(evals, name, file), filepath.Join(skill, "evals", file), filepath.Join(skill, "tests", file), filepath.Join(skill, file)); found != "" {
		return []string{found}, nil
	}
	return nil, usage("%s is no file, no directory and no skill with an eval: there is no %s", name, strings.Join(looked, ", "))
}

// evalsOf are the evals of a project: the one here, else all that are where it keeps them.
func evalsOf(project *eval.Project) ([]string, error) {
	file := project.EvalFile()
	if isFile(file) {
		return []string{file}, nil
	}
	evals, skills := relative(filepath.Join(project.Dir, project.EvalsDir())), relative(filepath.Join(project.Dir, project.SkillsDir()))
	var all []string
	for _, pattern := range [][]string{{evals, file}, {evals, "*", file}, {skills, "*", "evals", file}, {skills, "*", "tests", file}, {skills, "*", file}} {
		found, err := filepath.Glob(filepath.Join(pattern...))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, usage("there is no eval here: no %s, and none in %s or %s; name one", file, evals, skills)
	}
	return all, nil
}

// discover finds all evals below a directory. With --strict every skill must have one.
func (s runCommand) discover(c *cli.Context, dir string, project *eval.Project) ([]string, error) {
	var all, skills []string
	seen := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxDiscovered {
			return usage("--discover: %s holds more than %d files; name a directory in it", dir, maxDiscovered)
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".github" && entry.Name() != ".claude"
		switch {
		case entry.IsDir() && path != dir && (hidden || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir():
		case entry.Name() == project.EvalFile():
			all = append(all, path)
		case entry.Name() == "SKILL.md":
			skills = append(skills, filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		return nil, usage("--discover: %w", err)
	}
	if c.Bool("strict") {
		var without []string
		for _, skill := range skills {
			name := filepath.Base(skill)
			has := func(e string) bool {
				rel, err := filepath.Rel(skill, e)
				return err == nil && filepath.IsLocal(rel) || filepath.Base(filepath.Dir(e)) == name
			}
			if !slices.ContainsFunc(all, has) {
				without = append(without, skill)
			}
		}
		if len(without) > 0 {
			return nil, usage("--strict: these skills have no eval: %s", strings.Join(without, ", "))
		}
	}
	if len(all) == 0 {
		return nil, usage("--discover: there is no %s below %s", project.EvalFile(), dir)
	}
	return all, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// relative is a path as it is written from here, where it is below.
func relative(path string) string {
	here, err := os.Getwd()
	rel, errRel := filepath.Rel(here, path)
	if err != nil || errRel != nil || !filepath.IsLocal(rel) {
		return path
	}
	return rel
}

// runAll runs evals one after another, unless an interrupt ends it. The worst of the runs
// decides the exit code.
func (s runCommand) runAll(c *cli.Context, evals []string) error {
	if c.String("run-dir") != "" || c.Bool("keep") {
		return usage("--run-dir and --keep are for one eval, and this would run %d; name one of %s", len(evals), strings.Join(evals, ", "))
	}
	worst := exitOK
	for i, eval := range evals {
		if c.Context.Err() != nil {
			s.complain(fmt.Errorf("interrupted before eval %d of %d began", i+1, len(evals)))
			worst = worse(worst, exitInfra)
			break
		}
		fmt.Fprintf(s.stderr, "eval %d of %d: %s\n", i+1, len(evals), text.Inert(eval))
		one := *s.state
		one.target, one.apart = eval, slug(strings.TrimSuffix(filepath.ToSlash(eval), filepath.Ext(eval)))
		var exit *exitError
		if err := (runCommand{&one}).runOne(c); errors.As(err, &exit) {
			worst = worse(worst, exit.code)
			if exit.err != nil {
				s.complain(exit.err)
			}
		} else if err != nil {
			return err
		}
	}
	return exitWith(worst)
}

// choose keeps the tasks that match a glob of each list that is not empty.
func choose(tasks []eval.ResolvedTask, ids, tags []string) ([]eval.ResolvedTask, error) {
	for _, glob := range slices.Concat(ids, tags) {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, usage("%q is not a glob: %w", glob, err)
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(tasks), func(t eval.ResolvedTask) bool {
		return !matches(ids, t.ID, t.Name) || !matches(tags, t.Tags...)
	})
	if len(chosen) == 0 {
		var known []string
		for _, t := range tasks {
			known = append(known, t.ID)
		}
		return nil, usage("no task matches; the eval's tasks are %s", strings.Join(known, ", "))
	}
	return chosen, nil
}

func matches(globs []string, names ...string) bool {
	if len(globs) == 0 {
		return true
	}
	for _, glob := range globs {
		if slices.ContainsFunc(names, func(name string) bool { ok, _ := path.Match(glob, name); return ok }) {
			return true
		}
	}
	return false
}

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
	for _, given := range executors {
		executor, model, own := strings.Cut(given, "=")
		switch {
		case own && c.IsSet("model"):
			return nil, usage("--executor %s says its model, and so does --model; give one of them", given)
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

// slug is v as the name of a directory.
func (v variant) slug() string { return runner.Slug(v.executor+"-"+v.model, 48) }

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
