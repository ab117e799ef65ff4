package defence

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/waza-isolate/waza/"
	own    = module + "internal/defence"
	source = "defence.go"
)

// pkg is a package as described by go list.
type pkg struct {
	ImportPath, Dir                           string
	GoFiles, CgoFiles, IgnoredGoFiles, SFiles []string
}

// list returns the packages of this module among patterns, as built for Linux.
func list(t *testing.T, args ...string) (all []pkg) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles,SFiles"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(p.ImportPath, module) {
			all = append(all, p)
		}
	}
}

// parse reads a file.
func parse(t *testing.T, files *token.FileSet, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// declared are the constants of the package.
func declared(t *testing.T) map[string]*types.Const {
	t.Helper()
	files := token.NewFileSet()
	p, err := new(types.Config).Check(own, files, []*ast.File{parse(t, files, source)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Imports()) > 0 {
		t.Errorf("it imports %v", p.Imports())
	}
	all := map[string]*types.Const{}
	for _, name := range p.Scope().Names() {
		c, ok := p.Scope().Lookup(name).(*types.Const)
		if !ok {
			t.Errorf("%s is no constant", name)
			continue
		}
		all[name] = c
	}
	return all
}

// The package is one file for every system, so that nothing but another file in its place
// makes a constant false.
func TestOneFile(t *testing.T) {
	p := list(t, own)[0]
	if files := slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.SFiles); !slices.Equal(files, []string{source}) {
		t.Errorf("the package is made of %q, want %s alone", files, source)
	}
}

// The package only declares constants. Each is untyped, has the literal true as its value,
// and has a comment.
func TestAllTrue(t *testing.T) {
	for name, c := range declared(t) {
		if !c.Exported() || c.Type() != types.Typ[types.UntypedBool] || c.Val().String() != "true" {
			t.Errorf("%s is %s", name, c)
		}
	}
	for _, d := range parse(t, token.NewFileSet(), source).Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			t.Errorf("there is a %T", d)
			continue
		}
		for _, spec := range group.Specs {
			c := spec.(*ast.ValueSpec)
			name := c.Names[0].Name
			if len(c.Names) != 1 || len(c.Values) != 1 || types.ExprString(c.Values[0]) != "true" {
				t.Errorf("%s does not stand alone, or is not written as true", name)
			}
			doc := strings.Join(strings.Fields(cmp.Or(c.Doc, group.Doc).Text()), " ")
			if !strings.HasPrefix(doc, name+" ") || !strings.Contains(doc, ". Without it ") {
				t.Errorf("%s has the comment %q", name, doc)
			}
		}
	}
}

// What is shipped uses every constant.
func TestAllUsed(t *testing.T) {
	unused := declared(t)
	for _, p := range list(t, "-deps", module+"cmd/waza") {
		for _, name := range p.GoFiles {
			ast.Inspect(parse(t, token.NewFileSet(), filepath.Join(p.Dir, name)), func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && types.ExprString(s.X) == "defence" {
					delete(unused, s.Sel.Name)
				}
				return true
			})
		}
	}
	if len(unused) > 0 {
		t.Errorf("nothing that is shipped uses %q", slices.Sorted(maps.Keys(unused)))
	}
}
