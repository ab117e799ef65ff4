package archtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
)

const packagesHead = `# Packages

Every package with the first sentence of its comment. This page is generated: change
the comment, and run ` + "`make golden`" + `. Packages that contain only tests are left out.

| package | what it does |
|---|---|
`

// TestPackagesDocument holds docs/packages.md against the packages' comments.
func TestPackagesDocument(t *testing.T) {
	var page strings.Builder
	page.WriteString(packagesHead)
	for _, p := range modulePackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		kind, said, _ := strings.Cut(p.Doc, " ")
		name, said, _ := strings.Cut(said, " ")
		if kind != "Command" && (kind != "Package" || name != path.Base(p.ImportPath)) {
			t.Errorf("the comment of %s begins with %q, not with its name", p.ImportPath, p.Doc)
		}
		fmt.Fprintf(&page, "| `%s` | %s |\n", p.ImportPath, strings.TrimSuffix(said, "."))
	}
	golden.Check(t, "../../docs/packages.md", page.String())
}

// walked is a name in the walk of ARCHITECTURE.md: a package's function, type or method.
var walked = regexp.MustCompile("`([a-z]+)\\.([A-Za-z]\\w*(?:\\.[A-Z]\\w*)?)`")

// architecture is the text of ARCHITECTURE.md.
func architecture(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// walkFigures is the sentence of ARCHITECTURE.md that says how much there is to read on the walk.
var walkFigures = regexp.MustCompile(`in (\d+) files of (\d+)\s+packages, some ([\d,]+) lines`)

// TestWalk finds each function that the walk from an eval to its verdicts names, and counts the
// packages, files and lines in which they are. Lines are counted to 5 %.
func TestWalk(t *testing.T) {
	_, walk, found := strings.Cut(architecture(t), "\n## From eval to verdict\n")
	walk, _, ended := strings.Cut(walk, "\n## ")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no walk from eval to verdict")
	}
	declared, lines := map[string]string{}, map[string]int{}
	ourFiles(t, func(file string, content *ast.File) {
		of := path.Base(path.Dir(file)) + "."
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines[file] = bytes.Count(text, []byte("\n"))
		for _, decl := range content.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				declared[of+strings.TrimPrefix(receiver(d)+"."+d.Name.Name, ".")] = file
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						declared[of+s.Name.Name] = file
					}
				}
			}
		}
	})
	named := walked.FindAllStringSubmatch(walk, -1)
	if len(named) < 10 {
		t.Errorf("the walk names %d functions", len(named))
	}
	files, packages, all := map[string]bool{}, map[string]bool{}, 0
	for _, name := range named {
		file := declared[name[1]+"."+name[2]]
		if file == "" && strings.ToLower(name[2]) == name[2] {
			continue // a file's name
		}
		if file == "" {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", name[0])
		}
		if !files[file] {
			all += lines[file]
		}
		files[file], packages[path.Dir(file)] = true, true
	}
	said := walkFigures.FindStringSubmatch(walk)
	if said == nil {
		t.Fatalf("the walk does not say %q", walkFigures)
	}
	about, _ := strconv.Atoi(strings.ReplaceAll(said[3], ",", ""))
	if said[1] != strconv.Itoa(len(files)) || said[2] != strconv.Itoa(len(packages)) || all*20 < about*19 || all*20 > about*21 {
		t.Errorf("the walk is %q, and not in %d files of %d packages, %d lines", said[0], len(files), len(packages), all)
	}
}

// receiver returns the name of a method's type; empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// shown is a file of Go in ARCHITECTURE.md, with its path in its first line.
var shown = regexp.MustCompile("(?ms)^```go\n// (\\S+\\.go)\n(.*?)^```$")

// TestExamplesCompile compiles the Go files that ARCHITECTURE.md shows where they would be, and runs the
// format among them.
func TestExamplesCompile(t *testing.T) {
	document := architecture(t)
	if len(document) > 12<<10 {
		t.Errorf("ARCHITECTURE.md has %d bytes", len(document))
	}
	examples := shown.FindAllStringSubmatch(document, -1)
	if len(examples) < 3 { // a grader, a backend, a format
		t.Fatalf("ARCHITECTURE.md shows %d files of Go", len(examples))
	}
	overlay := map[string]map[string]string{"Replace": {}}
	at := filepath.Join(t.TempDir(), "overlay.json")
	build := []string{"build", "-overlay", at}
	for i, example := range examples {
		place, err := filepath.Abs(filepath.Join("../..", example[1]))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(filepath.Dir(at), fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(file, []byte(example[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][place] = file
		build = append(build, "./"+path.Dir(example[1]))
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("the examples of ARCHITECTURE.md: %v\n%s", err, out)
		}
		return string(out)
	}
	run(build...)
	if out := run("test", "-overlay", at, "-run", "^TestFormats$", "-v", "./report/export"); !strings.Contains(out, "--- PASS: TestFormats/failing") {
		t.Errorf("the format of ARCHITECTURE.md was not tested:\n%s", out)
	}
}
