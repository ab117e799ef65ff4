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

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// build is an executable that lacks some defences, none of them in TestAttacks.
type build struct {
	name     string
	defences []probe.Defence
	hostile  bool // it has package hostileguest
}

// removable are the defences that are taken out.
func removable() []probe.Defence {
	var all []probe.Defence
	for _, a := range All() {
		d := a.Without
		if d.Kept == "" && !slices.ContainsFunc(all, func(known probe.Defence) bool { return known.Name == d.Name }) {
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
	hostileMain = "package main\n\nimport _ \"github.com/waza-isolate/waza/test/attacks/hostileguest\"\n"
)

// constants are the names of the constants of package defence.
func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", constantsFile), nil, 0)
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

// source is that of package defence with variables in place of the constants: those that
// the linker names in out are false. So one compilation serves all weakened executables.
func source(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	source.WriteString("package defence\n\nimport \"strings\"\n\nvar out string\n\nvar (\n")
	for _, name := range constants(t) {
		fmt.Fprintf(&source, "\t%s = !strings.Contains(out, \",%s,\")\n", name, name)
	}
	source.WriteString(")\n")
	return source.String()
}

// out lists the constants of the defences, for the linker.
func (b build) out() string {
	out := []string{theCertificate}
	for _, d := range b.defences {
		out = append(out, d.Constants...)
	}
	return "," + strings.Join(out, ",") + ","
}

// overlay writes the file for go build -overlay, which replaces package defence and, if
// process 1 is to attack, adds a file. An executable without missing defenses is unmodified
// and has its certificate.
func (b build) overlay(t *testing.T, dir string) (string, error) {
	t.Helper()
	files := map[string]string{}
	if len(b.defences) > 0 {
		files[constantsFile] = source(t)
	}
	if b.hostile {
		files[hostileFile] = hostileMain
	}
	replace := map[string]string{}
	for name, content := range files {
		original, err := filepath.Abs(filepath.Join("..", "..", name))
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replace[original], []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// make builds the executable. The image of its guest goes with the test.
func (b build) make(t *testing.T) (string, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "waza")
	overlay, err := b.overlay(t, dir)
	if err != nil {
		return "", err
	}
	flags := "-s -w -X=github.com/waza-isolate/waza/internal/defence.out="
	if len(b.defences) > 0 {
		flags += b.out()
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-ldflags", flags, "-o", path, "./cmd/waza")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", b.name, err, out)
	}
	sum, err := files.Digest(path)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if ref := "waza-guest:" + sum[:16]; dockertest.ImageID(t, ref) != "" {
			dockertest.DropImage(t, ref)
		}
	})
	return path, nil
}
