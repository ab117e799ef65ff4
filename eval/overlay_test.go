package eval_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

const overlaidEval = `
-- eval.yaml --
name: demo
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: mock
  mcp_servers:
    shop: {url: "https://shop.example/mcp"}
    stock: {image: example/stock, memory: 64m, env: {A: eval}}
    old: {image: example/old}
graders:
  - {type: mcp_compliance, name: g, config: {server: added, max_tool_errors: 0}}
tasks: [task.yaml]
-- task.yaml --
id: t
inputs: {prompt: p}
mcp_servers:
  stock: {env: {C: task}}
  old: null
`

func load(t *testing.T, archive, overlay string) ([]eval.ResolvedTask, error) {
	t.Helper()
	unpack(t, txtar.Parse([]byte(archive)))
	file, err := mcpconfig.ReadClient("mcp.json", []byte(overlay))
	if err != nil {
		t.Fatal(err)
	}
	_, tasks, err := eval.Load("eval.yaml", eval.Options{Overlay: file})
	return tasks, err
}

// A server of the overlay takes the place of the eval's whole, and is checked in
// its stead; tasks lie over both.
func TestOverlay(t *testing.T) {
	tasks, err := load(t, overlaidEval, `{"mcpServers": {
		"shop": {"image": "example/shop-here"},
		"stock": {"image": "example/other", "env": {"B": "overlay"}},
		"added": {"image": "example/added"}
	}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]mcpconfig.Server{
		"shop":  {Image: "example/shop-here"},
		"stock": {Image: "example/other", Env: map[string]string{"B": "overlay", "C": "task"}},
		"added": {Image: "example/added"},
	}
	if diff := cmp.Diff(want, tasks[0].Servers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An eval may leave all of its servers to the overlay.
func TestOverlayAlone(t *testing.T) {
	tasks, err := load(t, `
-- eval.yaml --
{name: demo, config: {trials_per_task: 1, timeout_seconds: 30, executor: mock}, tasks: [task.yaml]}
-- task.yaml --
{id: t, inputs: {prompt: p}}
`, `{"servers": {"only": {"image": "example/only"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]mcpconfig.Server{"only": {Image: "example/only"}}, tasks[0].Servers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Mistakes in an overlaid server are reported at their position in the overlay, and those of
// the eval in the eval.
func TestOverlayErrors(t *testing.T) {
	_, err := load(t, overlaidEval, `{"mcp": {
  "shop": {"type": "local", "command": ["serve"], "cwd": "here"},
  "Proxy": {"command": "a", "environment": {"A B": "c"}}
}}`)
	var all strictyaml.Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, one := range all {
		one.Excerpt = ""
		got = append(got, one.Error())
	}
	want := []string{
		`eval.yaml:11:54: grader "g" names the MCP server "added", which is not declared; known here: Proxy, old, shop, stock`,
		`mcp.json:2:3: server "shop" has a command and no image to run it in; set its image or build (on the command line: --image), or config.isolation.server_image for all servers`,
		`mcp.json:2:58: server "shop": cwd must be an absolute path in the server's container`,
		`mcp.json:3:3: server "Proxy": the name is reserved; choose another`,
		`mcp.json:3:52: server "Proxy": env: "A B" is not a variable's name`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A mistake in a server of the eval is reported there, and not again at the tasks that change other fields
// of it. A mistake of such a task is reported there.
func TestMistakesOfServersOnce(t *testing.T) {
	unpack(t, txtar.Parse([]byte(`
-- eval.yaml --
name: demo
config: {executor: mock, mcp_servers: {s: {image: i, memory: lots}}}
tasks: [task*.yaml]
-- task1.yaml --
{id: one, inputs: {prompt: p}, mcp_servers: {s: {env: {A: b}}}}
-- task2.yaml --
{id: two, inputs: {prompt: p}, mcp_servers: {s: {cpus: -1}}}
`)))
	_, _, err := eval.Load("eval.yaml", eval.Options{})
	var all strictyaml.Errors
	if !errors.As(err, &all) || len(all) != 2 || all[0].File != "eval.yaml" || all[1].File != "task2.yaml" {
		t.Errorf("got %v", err)
	}
}

// The number of workers has an older name.
func TestWorkers(t *testing.T) {
	for config, want := range map[string]int{"": 0, ", workers: 2": 2, ", max_workers: 3": 3} {
		unpack(t, txtar.Parse([]byte("-- eval.yaml --\nname: w\nconfig: {trials_per_task: 1, timeout_seconds: 60, executor: mock"+config+"}\ntasks: [task.yaml]\n-- task.yaml --\n{id: t, inputs: {prompt: p}}\n")))
		e, _, err := eval.Load("eval.yaml", eval.Options{})
		if err != nil || int(e.Config.Workers) != want {
			t.Errorf("%q: %+v, %v", config, e, err)
		}
	}
}
