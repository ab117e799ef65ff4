package heavytest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What calls Mark elsewhere than scripts/test looks would never run: it wants a test's own
// function.
func TestMarksAreFound(t *testing.T) {
	marks := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			isTest := ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test")
			ast.Inspect(decl, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok && isMark(selector) {
					if marks++; !isTest {
						t.Errorf("%s: heavytest.Mark stands outside of a test", path)
					}
				}
				return true
			})
		}
		for _, i := range file.Imports {
			if strings.HasSuffix(i.Path.Value, `/internal/heavytest"`) && i.Name != nil {
				t.Errorf("%s: heavytest is imported by another name", path)
			}
		}
		return nil
	})
	if err != nil || marks == 0 {
		t.Errorf("%d marks, %v", marks, err)
	}
}

func isMark(s *ast.SelectorExpr) bool {
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "heavytest" && s.Sel.Name == "Mark"
}
