package main

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

// targets returns the eval files that the command line names.
func targets(c *cli.Command) ([]string, error) {
	if err := takes(c, 0, 1, "one eval, directory or skill"); err != nil {
		return nil, err
	}
	if c.Bool("discover") {
		return discover(c, cmp.Or(c.Args().First(), "."))
	}
	return evalsNamed(c.Args().First())
}

// evalNamed returns the one eval file that a name stands for; see [evalsNamed].
func evalNamed(name string) (string, error) {
	all, err := evalsNamed(name)
	switch {
	case err != nil:
		return "", err
	case len(all) > 1:
		return "", usage("this takes one eval, and there are several here: %s; name one", strings.Join(text.Few(all, 5), ", "))
	}
	return all[0], nil
}

// evalsNamed returns the eval files that the name of a file, a directory or a skill stands for.
// Without a name it returns those of the project.
func evalsNamed(name string) ([]string, error) {
	project, err := eval.FindProject(".")
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if name == "" {
		return evalsOf(project)
	}
	skillFile := ""
	if filepath.Base(name) == frontmatter.SkillFile {
		skillFile, name = name, filepath.Dir(name)
	}
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() || isYAML(name) {
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
		if skillFile != "" {
			return nil, usage("%s is a skill and no eval, and has none: there is no %s; write one that names its directory under config.skill_directories, and add tasks with waza new task", text.Inert(skillFile), either(looked))
		}
		return nil, usage("directory %s has no eval: there is no %s; name the eval's file, or run those of all directories in it with waza run --discover", name, either(looked))
	}
	if !filepath.IsLocal(name) {
		return nil, usage("%s: there is no such file", name)
	}
	evals, skill := eval.FromHere(filepath.Join(project.Dir, project.EvalsDir())), eval.FromHere(filepath.Join(project.Dir, project.SkillsDir(), name))
	if found := first(filepath.Join(evals, name, file), filepath.Join(skill, "evals", file), filepath.Join(skill, "tests", file), filepath.Join(skill, file)); found != "" {
		return []string{found}, nil
	}
	return nil, usage("%s is not a file, a directory or a skill with an eval: there is no %s", name, strings.Join(looked, ", "))
}

// evalsOf returns the eval file in the current directory, or all evals of the project.
func evalsOf(project *eval.Project) ([]string, error) {
	file := project.EvalFile()
	if _, err := os.Lstat(file); err == nil { // reading an unreadable file reports why
		return []string{file}, nil
	}
	evals, skills := eval.FromHere(filepath.Join(project.Dir, project.EvalsDir())), eval.FromHere(filepath.Join(project.Dir, project.SkillsDir()))
	var all []string
	for _, pattern := range [][]string{{evals, file}, {evals, "*", file}, {skills, "*", "evals", file}, {skills, "*", "tests", file}, {skills, "*", file}} {
		found, err := filepath.Glob(filepath.Join(pattern...))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, usage("there is no eval here: no %s, and none in %s or %s; name one, or write one with waza init", file, evals, skills)
	}
	return all, nil
}

// discover finds all evals below dir. With --strict every skill must have one.
func discover(c *cli.Command, dir string) ([]string, error) {
	project, err := eval.FindProject(".")
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	var all, skills []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".github" && entry.Name() != ".claude"
		switch {
		case entry.IsDir() && path != dir && (hidden || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir():
		case entry.Name() == project.EvalFile():
			all = append(all, path)
		case entry.Name() == frontmatter.SkillFile:
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

// latest names the newest run in [runsDir].
const latest = "latest"

// runsDir is the default directory of runs.
var runsDir = filepath.Join(".waza", "runs")

// runNamed returns the path of the run that a command line names, resolving [latest]. A
// directory called latest is named ./latest.
func runNamed(name string) (string, error) {
	if name != latest {
		if _, err := os.Lstat(name); err != nil {
			all := runs()
			at := slices.IndexFunc(all, func(run string) bool { return filepath.Base(run) == name })
			if near := strictyaml.Nearest(name, all); at >= 0 {
				return "", usage("there is no run directory %s here; did you mean %s?", text.Inert(name), all[at])
			} else if near != "" {
				return "", usage("there is no run directory %s; did you mean %s?", text.Inert(name), near)
			}
		}
		return runner.NamedDir(name), nil
	}
	dir, err := runner.Latest(runsDir)
	switch {
	case err != nil:
		return "", usage("%w", err)
	case dir == "":
		return "", usage("there is no run in %s here that could be the latest; name a run directory", runsDir)
	}
	return dir, nil
}

// runsNamed is [runNamed] for several names.
func runsNamed(names []string) ([]string, error) {
	dirs := make([]string, len(names))
	for i, name := range names {
		dir, err := runNamed(name)
		if err != nil {
			return nil, err
		}
		dirs[i] = dir
	}
	return dirs, nil
}

// isYAML reports whether a file is an eval by its name.
func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// selectTasks returns the tasks that match a glob of each list. Empty lists match all tasks.
func selectTasks(tasks []eval.ResolvedTask, ids, tags []string) ([]eval.ResolvedTask, error) {
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
		var asked []string
		for flag, globs := range map[string][]string{"--task": ids, "--tags": tags} {
			for _, glob := range globs {
				asked = append(asked, flag+" "+text.ShellWord(glob))
			}
		}
		slices.Sort(asked)
		part := ""
		for _, glob := range ids {
			if !strings.ContainsAny(glob, "*?[") && slices.ContainsFunc(known, func(id string) bool { return strings.Contains(id, glob) }) {
				part = "; for a part of a name write --task '*" + glob + "*'"
			}
		}
		return nil, usage("no task matches %s; the eval's tasks are %s%s", strings.Join(asked, " "), strings.Join(known, ", "), part)
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
