package main

import (
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
)

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
