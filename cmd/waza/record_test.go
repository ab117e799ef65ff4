package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
)

// What a server answered is recorded, and played where the server is not: the agent makes the same calls, and graders
// come to the same verdicts. A request that was not recorded ends the trial as a miss.
func TestRecordAndPlay(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  executor: script
  mcp_servers: {inventory: {command: inventory, env: {TOKEN: "${TOKEN}"}}}
graders:
  - {type: mcp_compliance, name: used, config: {server: inventory, max_tool_errors: 0}}
  - type: state
    name: state
    config: {server: inventory, calls: [{tool: find_item, arguments: {sku: BRG-6204}, contains: HB-90417-KX}]}
tasks: ["*-task.yaml"]
-- price-task.yaml --
id: price
inputs: {prompt: x}
script:
  - tools: {server: inventory}
  - call: {server: inventory, tool: find_item, arguments: {sku: BRG-6204}}
    as: bearing
  - say: "{{ bearing.json.price_cents }}, {{ bearing.json.serial }}"
expected: {output_contains: [HB-90417-KX]}
-- reserve-task.yaml --
id: reserve
inputs: {prompt: x}
script:
  - call: {server: inventory, tool: reserve_item, arguments: {sku: MTR-2200, quantity: 3}}
    as: reservation
  - call: {server: inventory, tool: find_item, arguments: {sku: none}, expect: tool_error}
  - say: "{{ reservation.json.code }}"
`)
	p.env = append(p.env, "TOKEN=hunter2-hunter2")
	p.start("run", "eval.yaml", "--run-dir", "live", "--no-isolate").wait(exitFailed)
	p.start("record", "live", "-o", "cassette").wait(exitOK)
	first := p.tree("cassette")
	p.start("record", "live", "-o", "cassette").wait(exitOK)
	if diff := cmp.Diff(first, p.tree("cassette")); diff != "" {
		t.Error(diff)
	}
	for name, content := range first {
		if strings.Contains(content, "hunter2") || strings.Contains(content, p.dir) {
			t.Errorf("%s holds what it must not:\n%s", name, content)
		}
	}
	if said := p.start("record", "--again", "live", "-o", "cassette").wait(exitFailed).stdout.String(); !strings.Contains(said, "nothing differs from cassette\n") {
		t.Errorf("a run again says\n%s", said)
	}
	p.write("cassette/tasks/price/servers/inventory.yaml", strings.ReplaceAll(first["/tasks/price/servers/inventory.yaml"], "HB-90417-KX", "HB-90417-KY"))
	if said := p.start("record", "--again", "live", "-o", "cassette").wait(exitFailed).stdout.String(); !strings.Contains(said, "answered otherwise") || !strings.Contains(said, " from cassette; to take the new answers: waza record ") {
		t.Errorf("a run again that has other answers says\n%s", said)
	}
	p.start("record", "live", "-o", "cassette").wait(exitOK)

	p.env = append(p.env, "PATH=/nowhere", "TOKEN=") // no server, and no secret
	p.start("run", "eval.yaml", "--run-dir", "played", "--no-isolate", "--cassette", "cassette").wait(exitFailed)
	runtest.CheckPlayed(t, p.path("live"), p.path("played"))
	if frames := p.read("played/trials/price/1/frames/inventory.jsonl"); !strings.Contains(frames, `"played":true`) {
		t.Errorf("no frame was played:\n%s", frames)
	}

	for script, want := range map[string]string{
		"{sku: MTR-2201, quantity: 3}": `inventory: no entry answers {"arguments":{"quantity":3,"sku":"MTR-2201"},"tool":"reserve_item"}; the nearest is entries[0] of tasks/reserve/servers/inventory.yaml, with arguments.sku: "MTR-2201", expected "MTR-2200"; find: sequence would give it entries[0] of tasks/reserve/servers/inventory.yaml`,
		"{sku: MTR-2200, quantity: 3}}\n  - call: {server: inventory, tool: reserve_item, arguments: {sku: MTR-2200, quantity: 3}": `entries[0] of tasks/reserve/servers/inventory.yaml has given all its answers`,
	} {
		task := p.read("reserve-task.yaml")
		p.write("reserve-task.yaml", strings.Replace(task, "{sku: MTR-2200, quantity: 3}", script, 1))
		p.start("run", "eval.yaml", "--no-isolate", "--cassette", "cassette", "--task", "reserve", "--trials", "1", "--run-dir", "missed", "--output", "missed.json").wait(exitFailed)
		var trial evidence.Trial
		if err := json.Unmarshal([]byte(p.read("missed/trials/reserve/1/trial.json")), &trial); err != nil {
			t.Fatal(err)
		}
		if trial.Class != evidence.ClassMiss || !strings.Contains(trial.Message, want) {
			t.Errorf("it ended as %s: %s\nwant %s", trial.Class, trial.Message, want)
		}
		p.write("reserve-task.yaml", task)
		if err := os.RemoveAll(p.path("missed")); err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns the content of the files below a directory.
func (p *project) tree(dir string) map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.path(dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, p.path(dir))] = string(content)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// What cannot be recorded or played is told in one sentence.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {executor: script, mcp_servers: {inventory: {command: inventory}}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script: [{say: hello}]
-- empty/cassette.yaml --
version: 1
-- other/cassette.yaml --
version: 1
-- other/servers/shop.yaml --
entries: [{kind: {method: initialize}, answer: {value: {result: {}}}}]
-- wrong/cassette.yaml --
version: 1
-- wrong/servers/shop.yaml --
entries: [{kind: {method: initialize}, answer: {value: 1}}]
`)
	for want, args := range map[string][]string{
		"waza: give --output: the directory of the cassette, such as cassette":                                               {"record", "run"},
		"waza: record takes one run directory; nothing was given; see waza record --help":                                    {"record"},
		"waza: run is not a run directory":                                                                                   {"record", "run", "-o", "cassette"},
		`--play must be servers, models, commands or none, not "tools"`:                                                      {"run", "eval.yaml", "--play", "tools"},
		"--play and --on-miss are about a cassette, and there is none; give --cassette DIR too, or set config.cassette":      {"run", "eval.yaml", "--play", "servers"},
		"cassette nowhere: no such file or directory":                                                                        {"run", "eval.yaml", "--cassette", "nowhere"},
		"cassette empty has no servers, which --play names; record them, or leave it out":                                    {"run", "eval.yaml", "--cassette", "empty", "--play", "servers"},
		`server "inventory" is not in the cassette, which has shop; record the eval again, or leave servers out with --play`: {"run", "eval.yaml", "--cassette", "other"},
		"entries[0] of servers/shop.yaml: the value of an answer must be an object with the result or the error":             {"run", "eval.yaml", "--cassette", "wrong"},
	} {
		c := p.start(args...)
		c.wait(exitUsage)
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q says\n%s\nwant %s", args, c.stderr.String(), want)
		}
	}
}
