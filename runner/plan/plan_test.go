package plan

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

const shopKey = "hunter2-and-more"

// shop is the eval in testdata/shop and its plan.
func shop(t testing.TB, c Choices) (*eval.Eval, []eval.ResolvedTask, []*Trial) {
	t.Helper()
	e, tasks, err := eval.Load(filepath.Join("testdata", "shop", "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Secrets == nil {
		c.Secrets = &secret.Set{}
	}
	c.Run = "run-1"
	c.Lookup = lookup(map[string]string{"SHOP_KEY": shopKey, "TILL_IMAGE": "till:private"})
	trials, err := Plan(e, tasks, c)
	if err != nil {
		t.Fatal(err)
	}
	return e, tasks, trials
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := env[name]; return value, ok }
}

func TestPlanAsAPersonReadsIt(t *testing.T) {
	_, _, trials := shop(t, Choices{})
	var all strings.Builder
	for _, trial := range trials {
		all.WriteString(trial.String() + "\n")
	}
	file := filepath.Join("testdata", "shop.plan")
	golden.Check(t, file, all.String())
}

func TestPlanOfABridge(t *testing.T) {
	for subnets, want := range map[string]string{
		"":            "bridge: an internal /29 of 10.213.0.0/16 ",
		"10.9.0.0/24": "bridge: an internal /29 of 10.9.0.0/24 ",
	} {
		trial := Trial{Network: "bridge", Subnets: subnets, Servers: []Server{{Name: "s"}}}
		for _, want := range []string{want, "the command of its image", "image waza's own"} {
			if text := trial.String(); !strings.Contains(text, want) {
				t.Errorf("subnets %q: %q is not in\n%s", subnets, want, text)
			}
		}
	}
}

func TestPlanOfAnAgentThatIsNotLockedYet(t *testing.T) {
	trial := Trial{Network: "bridge", Agent: Agent{Package: "npm:mine@1.0.0"}}
	for _, want := range []string{"package npm:mine@1.0.0, not resolved yet\n", "image to be built, "} {
		if text := trial.String(); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestPlanHoldsNoValueOfAVariable(t *testing.T) {
	secrets := &secret.Set{}
	_, _, trials := shop(t, Choices{Secrets: secrets})
	for _, trial := range trials {
		for form, text := range map[string]string{"text": trial.String(), "JSON": string(trial.JSON())} {
			if strings.Contains(text, shopKey) || form == "text" && strings.Contains(text, "till:private") {
				t.Errorf("the key is in the %s of %s/%d", form, trial.Task, trial.Number)
			}
		}
		if !json.Valid(trial.JSON()) {
			t.Errorf("plan of %s/%d is no JSON", trial.Task, trial.Number)
		}
	}
	stock := trials[0].Servers[0]
	process := serverProcess(stock.Expanded, sandbox.HomeDir)
	if diff := cmp.Diff([]string{"stock-server", "--key", shopKey}, process.Args); diff != "" {
		t.Errorf("the server itself has the key:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"HOME=/home/agent", "LEVEL=info", "TOKEN=" + shopKey}, process.Env); diff != "" {
		t.Error(diff)
	}
	if got := secrets.String(shopKey + " info till:private"); got != secret.Marked(shopKey)+" info "+secret.Marked("till:private") {
		t.Errorf("known secrets leave %q", got)
	}
}

func TestChoicesGoBeforeTheEval(t *testing.T) {
	_, _, trials := shop(t, Choices{Trials: 3, Timeout: time.Second})
	if len(trials) != 6 || trials[2].Number != 3 || trials[3].Task != "ask" || trials[5].Timeout != time.Second {
		t.Errorf("%d trials: %v", len(trials), trials)
	}
}

func TestPlanRefuses(t *testing.T) {
	ev, tasks, _ := shop(t, Choices{})
	env := lookup(map[string]string{"SHOP_KEY": "k", "TILL_IMAGE": "i"})
	for _, test := range []struct {
		name   string
		change func(*eval.Eval, *eval.ResolvedTask, *Choices)
		want   string
	}{
		{"missing variable", func(_ *eval.Eval, _ *eval.ResolvedTask, c *Choices) { c.Lookup = lookup(nil) }, `testdata/shop/eval.yaml:23:21: server "stock"`},
		{"agent's size", func(e *eval.Eval, _ *eval.ResolvedTask, _ *Choices) { e.Config.Isolation.Agent.Memory = "much" }, "task buy: "},
		{"context", func(_ *eval.Eval, task *eval.ResolvedTask, _ *Choices) {
			task.Context = map[string]any{"f": func() {}}
		}, "task buy: inputs.context"},
		{"file that is gone", func(_ *eval.Eval, task *eval.ResolvedTask, _ *Choices) {
			task.Servers = map[string]mcpconfig.Server{"s": {Image: "i", Files: map[string]string{"/data/x": "data/none"}}}
		}, `task buy: server "s"`},
		{"file in /etc", func(_ *eval.Eval, task *eval.ResolvedTask, _ *Choices) {
			task.Servers = map[string]mcpconfig.Server{"s": {Image: "i", Files: map[string]string{"/etc/x": "data/bolts.json"}}}
		}, "files: \"/etc/x\" is in a directory of its container that cannot be written to"},
		{"file of a service that is gone", withService(mcpconfig.Service{Files: map[string]string{"/data/x": "data/none"}}), `server "s": service "db"`},
		{"file of a service in /etc", withService(mcpconfig.Service{Files: map[string]string{"/etc/x": "data/bolts.json"}}), `services.db.files: "/etc/x" is in a directory of its container that cannot be written to`},
		{"writable system", withService(mcpconfig.Service{Writable: []string{"/usr/lib/x"}}), `server "s": services.db.writable[0] cannot be /usr/lib/x`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, task, c := *ev, tasks[0], Choices{Lookup: env, Secrets: &secret.Set{}}
			test.change(&e, &task, &c)
			trials, err := Plan(&e, []eval.ResolvedTask{task}, c)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(trials) != 0 {
				t.Errorf("%d trials, %v, want …%s…", len(trials), err, test.want)
			}
		})
	}
}

// withService puts a server with a service in the place of the task's own.
func withService(s mcpconfig.Service) func(*eval.Eval, *eval.ResolvedTask, *Choices) {
	s.Image, s.Ports, s.Ready = "i", []int{1}, &mcpconfig.Ready{Health: true}
	return func(_ *eval.Eval, task *eval.ResolvedTask, _ *Choices) {
		task.Servers = map[string]mcpconfig.Server{"s": {Image: "i", Services: map[string]*mcpconfig.Service{"db": &s}}}
	}
}

func TestOutermost(t *testing.T) {
	for _, test := range []struct{ files, want []string }{
		{nil, nil},
		{[]string{"/data/a", "/data/b"}, []string{"/data"}},
		{[]string{"/data/a", "/data/sub/b"}, []string{"/data"}},
		{[]string{"/data/sub/b", "/database/c"}, []string{"/data/sub", "/database"}},
		{[]string{"/a-b/f", "/a/f", "/a/c/f"}, []string{"/a", "/a-b"}},
		{[]string{"/tmp/a", sandbox.HomeDir + "/x/y"}, nil}, // writable as it is
		{[]string{"/home/a"}, []string{"/home"}},
		{[]string{"/a"}, []string{"/"}},
	} {
		var files []File
		for _, name := range test.files {
			files = append(files, NewFile(name, ""))
		}
		if got := outermost(dirsOf(files)); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.files, got, test.want)
		}
	}
}

func TestTogether(t *testing.T) {
	for _, test := range []struct{ ofFiles, named, want []string }{
		{nil, nil, nil},
		{[]string{"/data"}, nil, []string{"/data"}},
		{[]string{"/data", "/srv/a"}, []string{"/srv"}, []string{"/data", "/srv"}},
		{[]string{"/data"}, []string{"/data"}, []string{"/data"}},
		{nil, []string{"/b/c", "/b", "/b", "/tmp", sandbox.HomeDir}, []string{"/b", "/b/c"}},
		{[]string{"/srv"}, []string{"/srv/a"}, []string{"/srv", "/srv/a"}},
	} {
		if got := writable(test.ofFiles, test.named); !slices.Equal(got, test.want) {
			t.Errorf("%q and %q: %q, want %q", test.ofFiles, test.named, got, test.want)
		}
	}
}
