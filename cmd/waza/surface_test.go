package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/golden"
)

// TestSurface holds all that users and backends can rely on: keys of the schemas, commands, flags,
// formats, and optional interfaces of backends. The list only falls, or it rises with a reason in
// docs/decisions.md.
func TestSurface(t *testing.T) {
	s, _, _ := testState()
	all := commandSurface(s.app(), "")
	files, err := filepath.Glob("../../schemas/*.schema.json")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		var schema any
		if err == nil {
			err = json.Unmarshal(data, &schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		of, _, _ := strings.Cut(filepath.Base(file), ".")
		all = append(all, keySurface(schema, "key "+of+" ")...)
	}
	all = append(all, interfaceSurface(t)...)
	slices.Sort(all)
	golden.Check(t, "testdata/surface.txt", strings.Join(slices.Compact(all), "\n")+"\n")
}

// formats matches the formats in the usage of a flag, at its end.
var formats = regexp.MustCompile("`[A-Z]+`: ([a-z, -]+)$")

func commandSurface(c *cli.Command, above string) (all []string) {
	name := strings.TrimSpace(above + " " + c.Name)
	all = append(all, "command "+name)
	for _, flag := range c.Flags {
		for _, word := range flag.Names() {
			all = append(all, "flag "+name+" "+strings.Repeat("-", min(len(word), 2))+word)
		}
		said := flag.(cli.DocGenerationFlag).GetUsage()
		if found := formats.FindStringSubmatch(said); flag.Names()[0] == "format" && found != nil {
			for word := range strings.FieldsFuncSeq(strings.ReplaceAll(found[1], " or ", ","), func(r rune) bool { return r == ',' || r == ' ' }) {
				all = append(all, "format "+name+" "+word)
			}
		}
	}
	for _, below := range c.Commands {
		all = append(all, commandSurface(below, name)...)
	}
	return all
}

// keySurface lists the keys of a JSON Schema, each behind the place of its object.
func keySurface(schema any, place string) (all []string) {
	switch schema := schema.(type) {
	case []any:
		for _, one := range schema {
			all = append(all, keySurface(one, place)...)
		}
	case map[string]any:
		for word, value := range schema {
			fields, isObject := value.(map[string]any)
			switch {
			case isObject && word == "properties":
				for key, of := range fields {
					all = append(all, place+key)
					all = append(all, keySurface(of, place+key+".")...)
				}
			case isObject && word == "$defs":
				for name, of := range fields {
					all = append(all, keySurface(of, place+name+".")...)
				}
			default:
				all = append(all, keySurface(value, place)...)
			}
		}
	}
	return all
}

// mostOptional is how many optional interfaces there may be: what every backend has is a method of
// sandbox.Backend or sandbox.Sandbox.
const mostOptional = 6

// interfaceSurface lists the interfaces that a backend or its sandboxes may have: those of these packages
// that a type assertion asks for.
func interfaceSurface(t *testing.T) (all []string) {
	t.Helper()
	declaredIn := []string{"sandbox", "sandbox/selftest", "runner", "runner/trial"}
	declared, asked := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		of := file.Name.Name + "."
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if _, is := n.Type.(*ast.InterfaceType); is && slices.Contains(declaredIn, dir) {
					declared[of+n.Name.Name] = true
				}
			case *ast.TypeAssertExpr:
				if n.Type != nil {
					is := types.ExprString(n.Type)
					if !strings.Contains(is, ".") {
						is = of + is
					}
					asked[is] = true
				}
			}
			return true
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range declared {
		if asked[name] {
			all = append(all, "interface "+name)
		}
	}
	if len(all) == 0 || len(all) > mostOptional {
		t.Errorf("backends have the optional interfaces %q; there may be %d", all, mostOptional)
	}
	return all
}
