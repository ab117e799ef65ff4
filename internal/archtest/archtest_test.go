// Package archtest tests the structure of the module: which package imports which, and what
// the documents say of packages.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/waza-isolate/waza/"
	engine = "github.com/moby/moby/"
	// library is testcontainers, which shares the engine's types.
	library = "github.com/testcontainers/testcontainers-go"
)

// pkg is a package as described by go list.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string // the first sentence of its comment
	GoFiles      []string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// list returns packages as built for Linux, without the dependencies of their tests.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Doc,GoFiles,Standard,Imports,TestImports,XTestImports"}, args...)...)
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
		for _, file := range p.GoFiles { // go test keeps a result until a file changes that the test has looked at
			_, _ = os.Stat(filepath.Join(p.Dir, file))
		}
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
	allowed := []string{module + "containers", module + "internal/dockertest", module + "test/bench"}
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

// Packages that a package must not depend on, even indirectly, although they are on a lower
// floor. A name that ends in / matches everything below it.
func TestForbidden(t *testing.T) {
	outside := []string{"os/exec", engine}
	pure := append(outside, "net", "net/http", module+"sandbox/guest", module+"mcp/transport", module+"mcp/client", module+"mcp/proxy")
	below := []string{module + "runner", module + "runner/", module + "eval"}
	rules := map[string][]string{
		"grading":             append(pure, "github.com/mark3labs/"),
		"grading/match":       pure,
		"evidence/capture":    pure,
		"evidence/cassette":   pure,
		"report/view":         pure,
		"model/dialect":       pure,
		"evidence":            pure,
		"results":             pure,
		"report/junit":        pure,
		"report/export":       pure,
		"report/github":       pure,
		"report":              pure,
		"mcp/finding":         pure,
		"report/inspection":   pure,
		"mcp/catalog":         pure,
		"eval":                pure,
		"mcpconfig":           pure,
		"agents/adapter":      pure,
		"images":              pure,
		"internal/strictyaml": pure,
		"internal/tree":       pure,
		"sandbox/observe":     pure,
		"mcp/transport":       append(outside, "github.com/mark3labs/", module+"sandbox/guest"),
		"mcp/client":          append(outside, "github.com/mark3labs/", module+"sandbox/guest", module+"mcp/proxy"),
		"mcp/proxy":           append(outside, "github.com/mark3labs/", module+"sandbox/guest", module+"mcp/client"),
		"runner/plan":         {engine, module + "sandbox/guest", module + "mcp/proxy"},
		"runner/trial":        {engine, module + "sandbox/guest"},
		"runner":              {engine, module + "sandbox/guest"},
		"sandbox/local":       append(below, engine, module+"sandbox/guest"),
		"sandbox/selftest":    append(below, engine, module+"sandbox/guest"),
		"sandbox/sandboxtest": below,
		"containers":          below,
		"kubernetes":          below,
		"report/serve":        {engine, module + "sandbox/guest"},
		"model/stub":          append(outside, module+"sandbox/guest", module+"mcp/proxy"),
		"model/gateway":       append(outside, module+"sandbox/guest", module+"mcp/proxy"),
		"model/judge":         append(outside, module+"sandbox/guest"),
		"egress":              append(outside, module+"sandbox/guest"),
		"sandbox/probe":       append(outside, "net/http"),
		"sandbox/guest":       append(outside, "net/http"),
		"cmd/waza-guest":      {engine, library, "github.com/mark3labs/", "github.com/santhosh-tekuri/", "k8s.io/", "github.com/urfave/", module + "containers", module + "grading", module + "report/", module + "eval", module + "runner/plan"},
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

// The guest runs in every container next to hostile programs, so all its dependencies
// beyond the standard library are listed here.
func TestGuestIsSmall(t *testing.T) {
	want := []string{
		"github.com/hashicorp/yamux",
		module + "internal/bounded",
		module + "internal/defence",
		module + "sandbox/guest",
		module + "sandbox/observe",
		module + "sandbox/process",
		module + "internal/tree",
		"golang.org/x/net/dns/dnsmessage",
		"golang.org/x/sys/unix",
		"golang.org/x/time/rate",
	}
	var got []string
	for _, p := range list(t, "-deps", module+"sandbox/guest") {
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
