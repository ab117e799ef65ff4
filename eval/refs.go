package eval

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// layRefs lays below each grader of the list at base the file that it refers to.
func (l *loader) layRefs(doc *strictyaml.Document, base ...any) {
	for i := 0; doc.Has(append(base, i)...); i++ {
		at := append(strictyaml.Path(base), i)
		if doc.Has(append(at, "ref")...) {
			l.layRef(doc, at)
		}
	}
}

// layRef lays a grader's file below it. The name of a grader that has none is the file's.
func (l *loader) layRef(doc *strictyaml.Document, at strictyaml.Path) {
	var name string
	in := append(at, "ref")
	if !doc.DecodeAt(&name, in...) || name == "" {
		return
	}
	source, err := findInside(l.eval.roots(), name)
	switch {
	case err != nil && strings.ContainsAny(name, "@:"):
		doc.Problemf(at, "%s: %q is a grader of a registry, which is not fetched, since an eval may not make the runner fetch code; put its file beside the eval and name that", in, name)
		return
	case err != nil:
		doc.Problemf(at, "%s: file %q %v", in, name, err)
		return
	}
	file := filepath.Join(source.Dir, source.Path)
	grader, err := l.openGrader(file)
	if err != nil {
		doc.Problemf(at, "%s: file %q cannot be read as a grader", in, name)
		l.keep(err)
		return
	}
	l.eval.TextFiles = append(l.eval.TextFiles, file)
	if !doc.Lay(grader, at, "ref") {
		doc.Problemf(at, "%s: with the files that graders refer to, the eval is too large", in)
	}
	doc.Add(strings.TrimSuffix(path.Base(name), path.Ext(name)), at, "name")
}

// openGrader reads and checks a grader's file, but for its config, of which a part may stand
// where it is referred to.
func (l *loader) openGrader(file string) (*strictyaml.Document, error) {
	doc, err := l.open(file)
	if err != nil {
		return nil, err
	}
	doc.Decode(new(Grader))
	if doc.Has("ref") {
		doc.Problemf(strictyaml.Path{"ref"}, "a grader's file cannot refer to another file; write the grader out here")
	}
	l.warnings = append(l.warnings, doc.Warnings()...)
	return doc, doc.Err()
}
