package eval

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// taskFiles are the files that the eval's globs match, each once.
func (l *loader) taskFiles() []string {
	var files []string
	switch {
	case len(l.eval.Tasks) > 0:
	case l.doc.Has("tasks"):
		l.doc.Problemf(strictyaml.Path{"tasks"}, "tasks must not be empty")
	default:
		l.doc.Problemf(strictyaml.Path{"tasks"}, `missing key "tasks"; add it, or tasks_from`)
	}
	for i, pattern := range l.eval.Tasks {
		at := strictyaml.Path{"tasks", i}
		switch {
		case pattern == "":
			l.doc.Problemf(at, "%s must not be empty", at)
			continue
		case filepath.IsAbs(pattern):
			l.doc.Problemf(at, "%s must be relative to the eval's directory", at)
			continue
		case strings.Contains(pattern, "**"):
			l.doc.Problemf(at, "%s holds **, which is not a glob here; name each directory", at)
			continue
		}
		matches, err := filepath.Glob(filepath.Join(quoteGlob(l.eval.Dir()), pattern))
		if err != nil {
			l.doc.Problemf(at, "%s is not a glob: %v", at, err)
			continue
		}
		if len(matches) == 0 {
			l.doc.Problemf(at, "%s matches no file in %s", at, show(l.eval.Dir()))
		}
		for _, match := range matches {
			if !slices.Contains(files, match) {
				files = append(files, match)
			}
		}
	}
	return files
}

// quoteGlob makes a pattern that matches dir and nothing else.
func quoteGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
