package attacks

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/digest"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// build is an executable that lacks some defences, none of them in TestAttacks.
type build struct {
	name     string
	defences []Defence
	hostile  bool // it has package hostileguest
}

// removable are the defences that are taken out.
func removable() []Defence {
	var all []Defence
	for _, a := range All() {
		d := a.Without
		if d.Kept == "" && !slices.ContainsFunc(all, func(known Defence) bool { return known.Name == d.Name }) {
			all = append(all, d)
		}
	}
	return all
}

// builds are what the defences are taken out of.
func builds() []build {
	var all []build
	for _, d := range removable() {
		i := slices.IndexFunc(all, func(b build) bool { return b.name == d.Build })
		if i < 0 {
			i, all = len(all), append(all, build{name: d.Build})
		}
		all[i].defences = append(all[i].defences, d)
	}
	for i := range all {
		all[i].hostile = slices.ContainsFunc(All(), func(a Attack) bool {
			return a.Without.Build == all[i].name && a.Alone != nil && a.Alone.Hostile
		})
	}
	return all
}

const (
	// theCertificate is the constant that all weakened executables lack: with it a run ends
	// before its first trial where its sandbox does not hold.
	theCertificate = "Certificate"

	constantsFile = "internal/defence/defence.go"
	// hostileFile is added to the command. It is not in the source.
	hostileFile = "cmd/waza/hostileguest.go"
	hostileMain = "package main\n\nimport _ \"github.com/waza-isolate/waza/attacks/hostileguest\"\n"
)

// constants are the names of the constants of package defence.
func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", constantsFile), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

// overlay writes the file that go build -overlay reads: it has go build take package
// defence with the constants of defences false, and one file more where process 1 is to
// attack. An executable that lacks no defence is whole, and has its certificate.
func (b build) overlay(t *testing.T, dir string) string {
	t.Helper()
	files := map[string]string{}
	if len(b.defences) > 0 {
		files[constantsFile] = b.constants(t)
	}
	if b.hostile {
		files[hostileFile] = hostileMain
	}
	replace := map[string]string{}
	for name, content := range files {
		copied := filepath.Join(dir, filepath.Base(name))
		writeFile(t, copied, []byte(content))
		original, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	writeFile(t, file, data)
	return file
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// constants are those of package defence, as Go source, without the defences.
func (b build) constants(t *testing.T) string {
	t.Helper()
	out := []string{theCertificate}
	for _, d := range b.defences {
		out = append(out, d.Constants...)
	}
	var source strings.Builder
	source.WriteString("package defence\n\nconst (\n")
	for _, name := range constants(t) {
		fmt.Fprintf(&source, "\t%s = %t\n", name, !slices.Contains(out, name))
	}
	source.WriteString(")\n")
	return source.String()
}

// command is go with arguments, in the root of the module.
func (b build) command(t *testing.T, dir, verb string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{verb, "-trimpath", "-buildvcs=false", "-overlay", b.overlay(t, dir)}, args...)
	cmd := exec.Command("go", append(args, "./cmd/waza")...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// weaken builds waza without some defences. The image of its guest goes with the test.
func (b build) weaken(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "waza")
	if out, err := b.command(t, dir, "build", "-o", path).CombinedOutput(); err != nil {
		t.Fatalf("build without defences: %v\n%s", err, out)
	}
	sum, err := digest.File(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if ref := "waza-guest:" + sum[:16]; dockertest.ImageID(t, ref) != "" {
			dockertest.DropImage(t, ref)
		}
	})
	return path
}

// An executable compiles that lacks every defence, and so does each that lacks some: no
// type depends on which constants are false.
func TestBuild(t *testing.T) {
	t.Parallel()
	b := build{defences: removable(), hostile: true}
	if out, err := b.command(t, t.TempDir(), "list", "-export").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
