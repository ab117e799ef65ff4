package runner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// planOne plans the first task of the shop with one server, called s.
func planOne(t *testing.T, s mcpconfig.Server, c Choices, env map[string]string) *Trial {
	t.Helper()
	e, tasks, _ := shop(t, Choices{})
	task := tasks[0]
	task.Servers = map[string]mcpconfig.Server{"s": s}
	c.Lookup, c.Secrets = lookup(env), &redact.Set{}
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
	p := serverProcess(s.expanded, sandbox.HomeDir)
	if !p.OfImage || !cmp.Equal(p.Args, []string{"serve", "hidden/root"}) || !cmp.Equal(p.Env, []string{"HOME=/home/agent", "MODE=quick", "TOKEN=hunter2"}) {
		t.Errorf("started as %+v", p)
	}
	want := `  server      s, command ["docker" "run" "-i" "--rm" "-e" "TOKEN" "-e" "MODE=quick" "-u" "4711" "--tmpfs" "/var/lib/s" "-m" "64m" "--pull" "never" "example/s" "serve" "${ROOT}"]
              becomes the entrypoint of its image with ["serve" "${ROOT}"], environment ["MODE" "TOKEN"]
              image example/s (pull never), user 4711, cpus 1, memory 64MiB, disk 256MiB, pids 256
              answers within 30s, each request within 5m0s
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

// Runs that were recorded before are read too.
func TestImageRecord(t *testing.T) {
	var got ImageRecords
	err := json.Unmarshal([]byte(`{"a": "sha256:1", "b": {"id": "sha256:2", "digests": ["b@sha256:3"]}}`), &got)
	want := ImageRecords{"a": {ID: "sha256:1"}, "b": {ID: "sha256:2", Digests: []string{"b@sha256:3"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
