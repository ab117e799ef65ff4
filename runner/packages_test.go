package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/sandbox"
)

const packagesEval = `
name: packages
config:
  trials_per_task: 1
  timeout_seconds: 5
  executor: mock
  isolation: {server_image: unused, npm_image: base}
  mcp_servers:
    tool: {command: npx, args: [-y, tool, --key, "${KEY}"]}
    same: {command: npx, args: [tool], cwd: /srv}
    plain: {command: npx, args: [tool], image: its-own}
tasks: [task.yaml]
`

const toolLock = `{"version": 1, "packages": [{"ecosystem": "npm", "request": ["tool"], "version": "1.2.3",
	"npm": {"node_modules/tool": {"version": "1.2.3", "integrity": "sha512-abcdefghijklmnopqrstuvwxyz", "bin": {"serve": "x.js"}}}}]}`

func packages(t *testing.T, ev string) (*eval.Eval, []eval.ResolvedTask) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"eval.yaml": ev, "task.yaml": "{id: t, inputs: {prompt: p}}", "f": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, tasks, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e, tasks
}

func planPackages(t *testing.T, eval string, lock *images.Lock) ([]*Trial, error) {
	t.Helper()
	e, tasks := packages(t, eval)
	return Plan(e, tasks, Choices{Run: "r", Lookup: lookup(map[string]string{"KEY": "the-value"}), Secrets: &redact.Set{}, Lock: lock, Platform: "linux/amd64"})
}

func TestPlanPackages(t *testing.T) {
	trials, err := planPackages(t, packagesEval, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := trials[0].Servers[2]; s.Image != "" || s.Build == nil || s.Package != "npm:tool" || !strings.Contains(trials[0].String(), "npm:tool, not resolved yet") {
		t.Errorf("without a lock: %+v\n%s", s, trials[0])
	}
	lock, err := images.ParseLock([]byte(toolLock))
	if err != nil {
		t.Fatal(err)
	}
	if trials, err = planPackages(t, packagesEval, lock); err != nil {
		t.Fatal(err)
	}
	plain, same, tool := trials[0].Servers[0], trials[0].Servers[1], trials[0].Servers[2]
	if plain.Build != nil || plain.Image != "its-own" || plain.expanded.Command != "npx" {
		t.Errorf("npx in an image of its own: %+v", plain)
	}
	if tool.Build == nil || tool.Image != tool.Build.Tag() || tool.Image != same.Image || tool.Build.Base != "base" || tool.Package != "npm:tool@1.2.3" {
		t.Errorf("the package: %+v", tool)
	}
	got := []any{tool.expanded.Command, tool.expanded.Args, tool.expanded.Cwd, same.expanded.Args, same.expanded.Cwd}
	want := []any{"/opt/server/node_modules/.bin/serve", []string{"--key", "the-value"}, sandbox.HomeDir, []string{}, "/srv"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := trials[0].String() + string(trials[0].JSON()); strings.Contains(text, "the-value") || !strings.Contains(text, "npm:tool@1.2.3, built on base") {
		t.Errorf("the plan: %s", text)
	}
	e, tasks := packages(t, packagesEval)
	if all, err := Packages(e, append(tasks, tasks...), lock, "linux/arm64"); err != nil || len(all) != 1 || all[0].Tag() != tool.Image {
		t.Errorf("the packages: %v, %v", all, err)
	}
}

func TestPlanPackagesRefuses(t *testing.T) {
	lock, err := images.ParseLock([]byte(strings.Replace(toolLock, `"serve": "x.js"`, `"one": "x.js", "two": "y.js"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planPackages(t, packagesEval, lock); err == nil || !strings.Contains(err.Error(), "has no program tool; it has one, two") {
		t.Errorf("no such program: %v", err)
	}
	hiding := strings.Replace(packagesEval, "cwd: /srv", "files: {/opt/server/x/f: f}", 1)
	if _, err := planPackages(t, hiding, nil); err == nil || !strings.Contains(err.Error(), "no files can be put into /opt/server/x") {
		t.Errorf("files where the package is: %v", err)
	}
}
