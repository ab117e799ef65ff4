package plan

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// planOne plans the first task of the shop with one server, called s.
func planOne(t *testing.T, s mcpconfig.Server, c Choices, env map[string]string) *Trial {
	t.Helper()
	e, tasks, _ := shop(t, Choices{})
	task := tasks[0]
	task.Servers = map[string]mcpconfig.Server{"s": s}
	c.Lookup, c.Secrets = lookup(env), &secret.Set{}
	trials, err := Plan(e, []eval.ResolvedTask{task}, c)
	if err != nil {
		t.Fatal(err)
	}
	return trials[0]
}

// A docker run is planned as the image in it. The plan shows both, and no value of
// a variable.
func TestPlanOfDockerRun(t *testing.T) {
	trial := planOne(t, mcpconfig.Server{
		Command: "docker", Args: strings.Fields("run -i --rm -e TOKEN -e MODE=quick -u 4711 --tmpfs /var/lib/s -m 64m --pull never example/s serve ${ROOT}"),
	}, Choices{}, map[string]string{"TOKEN": "hunter2", "ROOT": "hidden/root"})
	s := trial.Servers[0]
	if s.Image != "example/s" || s.User != "4711" || s.Memory != 64<<20 || s.Pull != "never" || !cmp.Equal(s.Writable, []string{"/var/lib/s"}) {
		t.Errorf("planned as %+v", s)
	}
	p := serverProcess(s.Expanded, sandbox.HomeDir)
	if !p.OfImage || !cmp.Equal(p.Args, []string{"serve", "hidden/root"}) || !cmp.Equal(p.Env, []string{"HOME=/home/agent", "MODE=quick", "TOKEN=hunter2"}) {
		t.Errorf("started as %+v", p)
	}
	want := `  server      s, command ["docker" "run" "-i" "--rm" "-e" "TOKEN" "-e" "MODE=quick" "-u" "4711" "--tmpfs" "/var/lib/s" "-m" "64m" "--pull" "never" "example/s" "serve" "${ROOT}"]
              becomes the entrypoint of its image with ["serve" "${ROOT}"], environment ["MODE" "TOKEN"]
              image example/s (pull never), user 4711, cpus 1, memory 64MiB, disk 256MiB, pids 256
              answers within 1m0s, each request within 5m0s
              writable /var/lib/s
`
	if text := trial.String(); !strings.Contains(text, want) || strings.Contains(text, "hunter2") || strings.Contains(text, "hidden/root") {
		t.Errorf("the plan reads\n%s", text)
	}
	if data := string(trial.JSON()); strings.Contains(data, "hunter2") || strings.Contains(data, "hidden/root") || !strings.Contains(data, `"becomes":{"args":["serve","${ROOT}"]`) {
		t.Errorf("its JSON is %s", data)
	}
}

func TestPullGoesFromTheCommandLineDown(t *testing.T) {
	for name, test := range map[string]struct{ choice, server, want string }{
		"nothing":      {"", "", ""},
		"server":       {"", "always", "always"},
		"command line": {"never", "always", "never"},
	} {
		trial := planOne(t, mcpconfig.Server{Image: "i", Pull: test.server}, Choices{Pull: test.choice}, nil)
		if got := trial.Servers[0].Pull; got != test.want || trial.Agent.Pull != test.choice {
			t.Errorf("%s: server %q, agent %q", name, got, trial.Agent.Pull)
		}
	}
}

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
	return Plan(e, tasks, Choices{Run: "r", Lookup: lookup(map[string]string{"KEY": "the-value"}), Secrets: &secret.Set{}, Lock: lock, Platform: "linux/amd64"})
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
	if on := plain.Build; on == nil || on.Base != "its-own" || plain.Image != on.Tag() || plain.Image == tool.Image {
		t.Errorf("npx on an image of its own: %+v", plain)
	}
	if tool.Build == nil || tool.Image != tool.Build.Tag() || tool.Image != same.Image || tool.Build.Base != "base" || tool.Package != "npm:tool@1.2.3" {
		t.Errorf("the package: %+v", tool)
	}
	got := []any{tool.Expanded.Command, tool.Expanded.Args, tool.Expanded.Cwd, same.Expanded.Args, same.Expanded.Cwd}
	want := []any{"/opt/server/node_modules/.bin/serve", []string{"--key", "the-value"}, sandbox.HomeDir, []string{}, "/srv"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := trials[0].String() + string(trials[0].JSON()); strings.Contains(text, "the-value") || !strings.Contains(text, "npm:tool@1.2.3, built on base") {
		t.Errorf("the plan: %s", text)
	}
	e, tasks := packages(t, packagesEval)
	if all, err := Packages(e, append(tasks, tasks...), lock, "linux/arm64"); err != nil || len(all) != 1 || all[0].Tag() != plain.Image {
		t.Errorf("the packages: %v, %v", all, err)
	}
}

// A plan that is completed once its packages are resolved is the one that the lock would have
// given at first, whatever was planned before.
func TestInstall(t *testing.T) {
	lock, err := images.ParseLock([]byte(toolLock))
	if err != nil {
		t.Fatal(err)
	}
	want, err := planPackages(t, packagesEval, lock)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := planPackages(t, packagesEval, nil)
	if err != nil {
		t.Fatal(err)
	}
	if missing := Missing(trials); len(missing) != 1 || missing[0].String() != "npm:tool" {
		t.Errorf("missing: %v", missing)
	}
	for range 2 {
		if err := Install(trials, lock, "linux/amd64"); err != nil {
			t.Fatal(err)
		}
		for i, s := range trials[0].Servers {
			if diff := cmp.Diff(want[0].Servers[i].Expanded, s.Expanded); diff != "" {
				t.Errorf("server %s (-want +got):\n%s", s.Name, diff)
			}
		}
		if got := trials[0].String(); got != want[0].String() || string(trials[0].JSON()) != string(want[0].JSON()) {
			t.Errorf("plan:\n%s", got)
		}
	}
	if missing := Missing(trials); len(missing) != 0 {
		t.Errorf("missing: %v", missing)
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
	if _, err := planPackages(t, hiding, nil); err == nil || !strings.Contains(err.Error(), "files cannot be copied into /opt/server/x") {
		t.Errorf("files where the package is: %v", err)
	}
}

// TestSecretsStayOut checks that the files that secrets are in get into no image, under any name.
func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"Dockerfile": "FROM scratch", "sub/Dockerfile": "FROM scratch", "signing.key": "the key", "sub/other.key": "the key", "task.yaml": "{id: t, inputs: {prompt: p}}",
		"eval.yaml": `name: e
config:
  trials_per_task: 1
  timeout_seconds: 10
  executor: mock
  mcp_servers:
    one: {command: ./one, build: ., secrets: {K: {file: signing.key}}}
    two:
      command: ./two
      secrets: {K: {file: sub/other.key}}
      image: i
      services: {db: {build: ., command: ./db, ports: [1], ready: {health: true}}}
    three: {command: ./three, build: {context: sub}, secrets: {K: {file: absent.key}}}
graders:
  - {type: program, name: look, config: {command: ./look, build: {context: sub, args: {A: b}}}}
tasks: [task.yaml]
`,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "signing.key"), filepath.Join(dir, "sub", "linked")); err != nil {
		t.Fatal(err)
	}
	e, tasks, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	trials, err := Plan(e, tasks, Choices{Run: "r", Lookup: lookup(nil), Secrets: &secret.Set{}, Platform: "linux/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, b := range trials[0].containers() {
		if b.Build == nil {
			continue
		}
		built = append(built, b.Who)
		content, err := b.Build.Context(images.Network{})
		var packed bytes.Buffer
		if err = errors.Join(err, content.Tar(&packed)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(packed.String(), "FROM scratch") || strings.Contains(packed.String(), "the key") {
			t.Errorf("the build of %s gets %q", b.Who, packed.String())
		}
	}
	if diff := cmp.Diff([]string{`server "one"`, `server "three"`, `service "db" of server "two"`, `grader "look"`}, built); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	var told []string
	for _, g := range Gifts(e, trials) {
		if g.Build {
			told = append(told, strings.TrimPrefix(g.To, "the build of "))
		}
	}
	slices.Sort(told)
	if diff := cmp.Diff(slices.Sorted(slices.Values(built)), told); diff != "" {
		t.Errorf("told of as builds (-want +got):\n%s", diff)
	}
	db, look := trials[0].Servers[2].Services[0], trials[0].GraderContainers[0]
	if db.Image != db.Source.Tag() || look.Image != look.Source.Tag() || !strings.Contains(trials[0].String(), "build of "+db.Source.String()) {
		t.Errorf("the service has the image %s, the grader %s, in\n%s", db.Image, look.Image, trials[0])
	}
}
