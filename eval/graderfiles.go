package eval

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// MaxGraderFile bounds a file that a grader's config names: each trial's evidence
// holds a copy.
const MaxGraderFile = 1 << 20

var errOutside = errors.New("must be in the eval's directory: a relative path that does not lead out")

// filed is a grader's config that names files.
type filed interface {
	Files() []string // slash-separated, relative to the eval
	Hold(map[string][]byte) error
}

// files reads what a config, which stands at a path of the document, names.
func (g *graders) files(config filed, at strictyaml.Path) map[string][]byte {
	files := map[string][]byte{}
	read := func(name string) ([]byte, error) { return readInside(g.eval.roots(), name) }
	if diff, ok := config.(*grading.DiffConfig); ok {
		if g.update {
			read = g.eval.readSnapshot
		} else if diff.UpdateSnapshots {
			g.doc.Warnf(append(slices.Clone(at), "update_snapshots"), "%s.update_snapshots has no effect: waza run --update-snapshots writes snapshots, which no eval can ask for", at)
		}
	}
	for _, name := range config.Files() {
		content, err := read(name)
		if err != nil {
			g.doc.Problemf(at, "%s: file %q %v", at, name, err)
			return nil
		}
		files[name] = content
	}
	if err := config.Hold(files); err != nil {
		g.doc.Problemf(at, "%s: %s", at, flat(err))
	}
	return files
}

// readInside reads a file that is in one of the directories and no larger than graders'
// files may be.
func readInside(roots []string, name string) ([]byte, error) {
	source, err := findInside(roots, name)
	if err != nil {
		return nil, err
	}
	return source.read(MaxGraderFile)
}

// findInside finds a file that is in one of the directories.
func findInside(roots []string, name string) (Source, error) {
	if !isInside(name) {
		return Source{}, errOutside
	}
	return locate(roots, filepath.FromSlash(name))
}
