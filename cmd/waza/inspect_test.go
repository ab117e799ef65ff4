package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/report/inspection"
)

// listers is a client's file with a server of testdata/lister for each way of listing, and
// real ones of npm.
func listers(ways ...string) string {
	servers := map[string]any{
		"everything": map[string]any{"image": npmServers, "command": "mcp-server-everything"},
		"files":      map[string]any{"image": npmServers, "command": "mcp-server-filesystem", "args": []string{"/tmp"}},
		"absent":     map[string]any{"image": debian, "command": "/srv/nothing"},
	}
	for _, how := range ways {
		servers[how] = map[string]any{
			"image": debian, "command": "/srv/lister", "args": []string{how},
			"files": map[string]string{"/srv/lister": "lister"}, "env": map[string]string{"API_TOKEN": "correct-horse-battery"},
		}
	}
	data, _ := json.Marshal(map[string]any{"mcpServers": servers})
	return string(data)
}

func (p *project) report() map[string]inspection.Server {
	p.t.Helper()
	var r inspection.Report
	if err := json.Unmarshal([]byte(p.read("out", inspection.File)), &r); err != nil {
		p.t.Fatal(err)
	}
	servers := map[string]inspection.Server{}
	for _, s := range r.Servers {
		servers[s.Name] = s
	}
	if r.Certificate == nil || r.Certificate.Held == 0 || len(r.Certificate.GotOut) > 0 {
		p.t.Errorf("certificate %+v", r.Certificate)
	}
	return servers
}

// What servers list and do is told, whatever they do to him who asks; and nothing of them
// is left.
func TestInspect(t *testing.T) {
	t.Parallel()
	p := newProject(t, "-- mcp.json --\n"+listers("honest", "cycle", "poisoned", "drift", "quits")+"\n", npmServers)
	p.compile("lister", "./testdata/lister")
	c := p.start("inspect", "mcp.json", "--isolate", "--for", "10ms", "--out", "out")
	<-c.ended
	if c.code != exitInfra { // one of them is not there
		t.Fatalf("exit code %d\n%s", c.code, &c.stderr)
	}
	found := p.report()
	tests := map[string]struct {
		tools   int
		partial string
	}{
		"honest": {1, ""}, "poisoned": {1, ""}, "drift": {1, ""}, "everything": {13, ""}, "files": {14, ""},
		"cycle": {2, "the server sent the same cursor twice"},
	}
	for name, tt := range tests {
		l := found[name].Catalog.Of(catalog.Tools)
		if found[name].Failed != "" || len(l.Entries) != tt.tools || l.Partial != tt.partial {
			t.Errorf("%s: %d tools, partial %q, failed %q", name, len(l.Entries), l.Partial, found[name].Failed)
		}
	}
	if drift := fmt.Sprint(found["drift"].Drift); drift != `[tool "late" added]` {
		t.Errorf("drift: %s", drift)
	}
	if !strings.Contains(found["absent"].Failed, "did not start") {
		t.Errorf("a server that is not there: %q", found["absent"].Failed)
	}
	if quits := found["quits"].Failed; !strings.Contains(quits, "it answered initialize, and then it exited with code 1") ||
		!strings.Contains(quits, "hint: quits tried to reach collect.example, 192.0.2.9:443") {
		t.Errorf("a server that ends early: %q", quits)
	}
	for _, real := range []string{"everything", "files", "honest"} {
		if found := found[real].Findings.Places; len(found) > 0 {
			t.Errorf("%s is marked: %v", real, found)
		}
	}
	marked := map[string]bool{}
	for _, m := range found["poisoned"].Findings.Places {
		marked[string(m.Kind)] = true
	}
	for _, kind := range []string{"terminal", "hidden", "poses", "orders", "files", "secrecy"} {
		if !marked[kind] {
			t.Errorf("poisoned is not marked for %s", kind)
		}
	}
	inspectedConduct(t, found["honest"])
	for _, text := range []string{c.stdout.String(), p.read("out", inspection.File), p.read("out", "honest", "servers", "honest.stderr")} {
		if strings.Contains(text, "correct-horse-battery") {
			t.Error("a secret is told")
		}
	}
	if strings.ContainsAny(c.stdout.String(), "\x1b\u202e\x07") {
		t.Error("a server steers the terminal")
	}
	if p.exists("waza.lock") {
		t.Error("a lock was written unasked")
	}
}

// inspectedConduct checks that what a server did is told.
func inspectedConduct(t *testing.T, s inspection.Server) {
	t.Helper()
	reported, _ := json.Marshal(s.Did)
	for _, want := range []string{`"/tmp/left"`, `"collect.example"`, `192.0.2.9:443`, `/srv/lister`} {
		if !strings.Contains(string(reported), want) {
			t.Errorf("what it did lacks %s: %s", want, reported)
		}
	}
	if s.Used == nil || s.Used.Used == nil || s.Image == nil || !strings.Contains(s.Stderr, "starting with ****") {
		t.Errorf("used %+v, image %+v, stderr %q", s.Used, s.Image, s.Stderr)
	}
}

// What is pinned is compared in later inspections and runs, and a run can refuse.
func TestPin(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/lister, args: ["${HOW}"], files: {/srv/lister: lister}}
tasks: [task.yaml]
-- task.yaml --
id: t
inputs: {prompt: x}
script:
  - call: {server: it, tool: add}
`)
	p.compile("lister", "./testdata/lister")
	run := func(how string, code int, args ...string) *command {
		t.Helper()
		p.env = append(p.env, "HOW="+how)
		c := p.start(args...)
		<-c.ended
		if c.code != code {
			t.Fatalf("%q: exit code %d, want %d\n%s%s", args, c.code, code, &c.stdout, &c.stderr)
		}
		return c
	}
	inspect := []string{"inspect", "eval.yaml", "--isolate", "--for", "10ms"}
	if c := run("drift", exitInfra, append(inspect, "--pin")...); !strings.Contains(c.stderr.String(), `cannot be pinned: it listed something else a moment later: tool "late" added`) || p.exists("waza.lock") {
		t.Errorf("a server that drifts was pinned: %s", &c.stderr)
	}
	run("honest", exitOK, append(inspect, "--pin")...)
	lock := p.read("waza.lock")
	if c := run("poisoned", exitOK, inspect...); !strings.Contains(c.stdout.String(), "pin: NOT as waza.lock has it") || !strings.Contains(c.stdout.String(), `tool "add" removed`) {
		t.Errorf("another: %s", &c.stdout)
	}
	if p.read("waza.lock") != lock {
		t.Error("the lock has changed unasked")
	}
	const says = `server "it": differs from its pin`
	if c := run("honest", exitOK, "run", "--isolate", "--pins", "fail", "eval.yaml"); strings.Contains(c.stdout.String(), says) {
		t.Errorf("as pinned: %s", &c.stdout)
	}
	if c := run("poisoned", exitInfra, "run", "--isolate", "--pins", "fail", "eval.yaml"); !strings.Contains(c.stdout.String(), "incomplete (pin)") {
		t.Errorf("another: %s", &c.stdout)
	}
	if c := run("", exitOK, "export", "latest", "--format", "sarif"); !regexp.MustCompile(`"ruleId": "pin",\s+"level": "error",\s+"message": \{\s+"text": "server \\"it\\": differs from its pin, by what it listed for the runner's probe: .*tool \\"add\\" removed`).MatchString(c.stdout.String()) {
		t.Errorf("for code scanning: %s", &c.stdout)
	}
}
