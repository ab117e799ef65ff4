package archtest

import (
	"go/ast"
	"path"
	"testing"
)

// maxFiles is how many files the methods of a type may be in.
const maxFiles = 3

// wide are types that are in more files, and in how many. An entry may only shrink.
var wide = map[string]int{
	"internal/browsertest.Page": 4,
	"sandbox/sandboxtest.suite": 7,
}

func TestObjects(t *testing.T) {
	found := map[string]map[string]bool{} // files by type
	ourFiles(t, func(file string, content *ast.File) {
		for _, d := range content.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				name := path.Dir(file) + "." + receiver(f)
				if found[name] == nil {
					found[name] = map[string]bool{}
				}
				found[name][file] = true
			}
		}
	})
	for name, files := range found {
		switch n, may := len(files), max(wide[name], maxFiles); {
		case n > may:
			t.Errorf("methods of %s are in %d files, and may be in %d: split the type, or put its methods together", name, n, may)
		case n < wide[name]:
			t.Errorf("methods of %s are in %d files only: lower its entry, or delete it at %d", name, n, maxFiles)
		}
	}
	for name := range wide {
		if found[name] == nil {
			t.Errorf("%s does not exist: delete its entry", name)
		}
	}
}
