// Package archtest holds the import graph: what ARCHITECTURE.md says of who knows
// what, as a test. It looks at imports alone, not at how they are used.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/waza-isolate/waza/"
	engine = "github.com/docker/docker/"
	// library is testcontainers, which shares the engine's types.
	library = "github.com/testcontainers/testcontainers-go"
)

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// list asks go list about packages as they are built for Linux, without their
// tests' own dependencies.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for decoder := json.NewDecoder(out); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil || len(all) == 0 {
		t.Fatalf("go list: %v, %d packages\n%s", err, len(all), complaint.String())
	}
	return all
}

// Only the Docker backend knows the engine; tests reach it through dockertest, and
// those of the backend and of the commands directly: they look at what is there. The
// benchmark makes the calls that the backend is compared with, and so must not make
// them through it.
func TestWhoImportsTheEngine(t *testing.T) {
	allowed := []string{module + "bench", module + "containers", module + "internal/dockertest"}
	var found []string
	for _, p := range list(t, module+"...") {
		imports := p.Imports
		if p.ImportPath != module+"cmd/waza" {
			imports = slices.Concat(imports, p.TestImports, p.XTestImports)
		}
		if !slices.ContainsFunc(imports, func(i string) bool { return strings.HasPrefix(i, engine) }) {
			continue
		}
		found = append(found, p.ImportPath)
		if !slices.Contains(allowed, p.ImportPath) {
			t.Errorf("%s imports %s...", p.ImportPath, engine)
		}
	}
	if !slices.Equal(found, allowed) {
		t.Errorf("%q import the engine, want %q: is this test looking at anything?", found, allowed)
	}
}

// Only the Docker backend has testcontainers, which it hands its own plans to.
func TestWhoImportsTestcontainers(t *testing.T) {
	var found []string
	for _, p := range list(t, module+"...") {
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		if slices.ContainsFunc(imports, func(i string) bool { return i == library || strings.HasPrefix(i, library+"/") }) {
			found = append(found, p.ImportPath)
		}
	}
	if want := []string{module + "containers"}; !slices.Equal(found, want) {
		t.Errorf("%q import testcontainers, want %q", found, want)
	}
}

// What a package must not come to depend on, however indirectly. A name that ends
// in / stands for all below it.
func TestForbidden(t *testing.T) {
	world := []string{"net", "net/http", "os/exec", engine, module + "containers", module + "runner/guest", module + "runner/mcpproxy"}
	rules := map[string][]string{
		"grading":             append(world, "github.com/mark3labs/"),
		"grading/match":       append(world, module+"runner/", module+"mcpconfig"),
		"runner/capture":      world,
		"runner/conversation": world,
		"runner/dialect":      append(world, module+"runner/evidence"),
		"runner/evidence":     world,
		"runner/results":      world,
		"runner/junit":        world,
		"runner/markdown":     world,
		"runner/report":       world,
		"runner/suspect":      world,
		"runner/inspection":   world,
		"offer":               append(world, module+"runner/", module+"mcpconfig"),
		"runner/spec":         world,
		"mcpconfig":           append(world, module+"runner/"),
		"agents/adapter":      append(world, module+"runner/spec"),
		"images":              append(world, module+"runner/"),
		"internal/strictyaml": append(world, module+"runner/"),
		"runner/mcpproxy":     {"os/exec", engine, "github.com/mark3labs/", module + "containers", module + "runner/guest"},
		"runner":              {engine, module + "containers", module + "runner/guest"},
		"runner/local":        {engine, module + "containers", module + "runner/guest"},
		"modelstub":           {"os/exec", engine, module + "containers", module + "runner/guest", module + "runner/mcpproxy"},
		"runner/model":        {"os/exec", engine, module + "containers", module + "runner/guest", module + "runner/mcpproxy"},
		"runner/egress":       {"os/exec", engine, module + "containers", module + "runner/guest", module + "runner/mcpproxy", module + "runner/spec"},
		"runner/tree":         world,
		"runner/usage":        world,
		"runner/certificate":  {engine, module + "containers", module + "runner/guest"},
		"runner/judge":        {"os/exec", engine, module + "containers", module + "grading", module + "runner/guest", module + "runner/mcpproxy", module + "runner/spec"},
		"serve":               {engine, module + "containers", module + "runner/guest", module + "runner/local"},
		"runner/probe":        {"os/exec", "net/http", engine, module + "runner/guest", module + "runner/certificate"},
		"runner/guest":        {"os/exec", "net/http", engine, module + "runner/mcpproxy", module + "runner/spec"},
	}
	for name, forbidden := range rules {
		for _, p := range list(t, "-deps", module+name) {
			for _, rule := range forbidden {
				if p.ImportPath == rule || strings.HasSuffix(rule, "/") && strings.HasPrefix(p.ImportPath, rule) {
					t.Errorf("%s depends on %s", name, p.ImportPath)
				}
			}
		}
	}
}

// The guest is in every container, beside whatever is hostile there: all that it
// is made of beyond the standard library is listed here.
func TestGuestIsSmall(t *testing.T) {
	want := []string{
		"github.com/hashicorp/yamux",
		module + "internal/bounded",
		module + "internal/defence",
		module + "runner/guest",
		module + "runner/observe",
		module + "runner/process",
		module + "runner/tree",
		module + "runner/usage",
		"golang.org/x/net/dns/dnsmessage",
		"golang.org/x/sys/unix",
		"golang.org/x/time/rate",
	}
	var got []string
	for _, p := range list(t, "-deps", module+"runner/guest") {
		if !p.Standard {
			got = append(got, p.ImportPath)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the guest is made of\n  %q\nwant\n  %q", got, want)
	}
}
