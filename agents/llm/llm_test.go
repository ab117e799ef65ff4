package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/llm"
)

// The final output is all that the model said, also before it used a tool.
func TestOutputIsAllMessages(t *testing.T) {
	model := newModel(t,
		raw(`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"u1","type":"function","function":{"name":"mcp__stock__echo","arguments":"{}"}}]}}]}`),
		says("There are 7."))
	if o := newDesk(t, model).mustRun(t); o.output != "Let me see.\nThere are 7." {
		t.Errorf("said %q", o.output)
	}
}

// A turn with two tools, then the answer: what crosses, what is told, what comes out.
func TestRun(t *testing.T) {
	model := newModel(t,
		asks(use{"u1", "mcp__stock__echo", `{"id": 9007199254740993}`}, use{"u2", "mcp__stock__refuse", ``}),
		says("There are 7."))
	d := newDesk(t, model)
	cool := 0.0
	d.input.Temperature, d.input.System, d.input.Context = &cool, "Be brief.", json.RawMessage(`{"shelf":"A"}`)
	o := d.mustRun(t)
	if o.output != "There are 7." || o.log != "" {
		t.Errorf("said %q, logged %q", o.output, o.log)
	}
	if diff := cmp.Diff([]string{`echo {"id":9007199254740993} for u1`, "refuse"}, d.calls.all()); diff != "" {
		t.Error(diff)
	}
	first, last := model.requests()[0], model.last()
	if first.Model != "m-1" || first.Temperature == nil || first.MaxTokens != 0 {
		t.Errorf("asked %+v", first)
	}
	system := first.results("system")[0]
	for _, want := range []string{"Be brief.", `{"shelf":"A"}`, d.input.Workspace} {
		if !strings.Contains(system, want) {
			t.Errorf("the system prompt lacks %q: %s", want, system)
		}
	}
	if diff := cmp.Diff([]string{"count the bolts"}, first.results("user")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`{"id":9007199254740993}`, "Error: no such item"}, last.results("tool")); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(model.bodies[1], `"arguments":"{\"id\": 9007199254740993}"`) {
		t.Errorf("the model's own words did not come back to it: %s", model.bodies[1])
	}
	description, parameters, ok := first.tool("mcp__stock__echo")
	if !ok || description != "gives back its arguments" || !strings.Contains(parameters, `"number"`) {
		t.Errorf("tool echo is told as %q %q", description, parameters)
	}
	var reported []string
	for _, e := range o.events {
		reported = append(reported, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Type, e.ToolCallID, e.ToolName, e.Arguments)))
	}
	want := []string{
		"user.message", `tool.execution_start u1 mcp__stock__echo {"id":9007199254740993}`, "tool.execution_complete u1 mcp__stock__echo",
		"tool.execution_start u2 mcp__stock__refuse {}", "tool.execution_complete u2 mcp__stock__refuse", "assistant.message",
	}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Error(diff)
	}
	if ok := o.events[4].Success; ok == nil || *ok {
		t.Error("a tool's error is told as success")
	}
}

// What MCP results hold comes to the model in some way, and bounded.
func TestResults(t *testing.T) {
	for tool, want := range map[string][]string{
		"count":                  {"counted\n{\"bolts\":9007199254740993}"},
		"twice":                  {"{\"bolts\": 1}"},
		"look":                   {"[image: image/png, 96 bytes of base64]", "[audio: audio/wav", "[resource stock://shelf]\nshelf A", "[resource shelf-b: stock://b]"},
		"a_tool_with_spaces":     {"odd"},
		"flood":                  {"more bytes are left out]"},
		"nothing":                {`Error: there is no tool "mcp__stock__nothing"`},
		"echo\", \"arguments\":": {"Error: there is no tool"},
	} {
		t.Run(tool, func(t *testing.T) {
			model := newModel(t, asks(use{"u", "mcp__stock__" + tool, "{}"}), says("done"))
			newDesk(t, model).mustRun(t)
			got := model.last().results("tool")[0]
			for _, part := range want {
				if !strings.Contains(got, part) {
					t.Errorf("the model is told %.300q, want %q", got, part)
				}
			}
			if tool == "twice" && got != want[0] || len(got) > 300<<10 {
				t.Errorf("the model is told %d bytes: %.300q", len(got), got)
			}
		})
	}
}

// A picture follows the results of its turn, and is taken back from a model that has no
// eyes.
func TestPictures(t *testing.T) {
	model := newModel(t, asks(use{"u", "mcp__stock__look", "{}"}), says("seen"))
	newDesk(t, model).mustRun(t)
	if shown := model.last().results("user"); len(shown) != 2 || strings.Count(shown[1], "data:image/png;base64,"+dot) != 1 || strings.Contains(shown[1], "not base64") {
		t.Errorf("shown %q", shown)
	}
	model = newModel(t, asks(use{"u", "mcp__stock__look", "{}"}), fails(400, `{"error":{"message":"no images please"}}`), says("blind"))
	if o := newDesk(t, model).mustRun(t); o.output != "blind" || len(model.last().results("user")) != 1 {
		t.Errorf("said %q, shown %q", o.output, model.last().results("user"))
	}
}

// Tools of servers get names that models take, none twice.
func TestNames(t *testing.T) {
	long := "mcp__stock__" + strings.Repeat("very_long_", 8)
	model := newModel(t, says("done"))
	newDesk(t, model).mustRun(t)
	seen := map[string]bool{}
	for _, tool := range model.last().Tools {
		name := tool.Function.Name
		if len(name) > 64 || seen[name] {
			t.Errorf("%q is too long or there twice", name)
		}
		seen[name] = true
	}
	var names []string
	for name := range seen {
		if strings.HasPrefix(name, long[:20]) {
			names = append(names, name)
		}
	}
	if len(names) != 2 {
		t.Fatalf("long names come to %q", names)
	}
	model = newModel(t, asks(use{"u1", names[0], "{}"}, use{"u2", names[1], "{}"}), says("done"))
	o := newDesk(t, model).mustRun(t)
	got := model.last().results("tool")
	if len(got) != 2 || got[0] == got[1] || !strings.HasPrefix(o.events[1].ToolName, long) {
		t.Errorf("results %q, told as %q", got, o.events[1].ToolName)
	}
}

// What a model gets wrong it is told, and the run goes on.
func TestMistakes(t *testing.T) {
	model := newModel(t,
		asks(use{"same", "mcp__stock__echo", `{"id": 1`}, use{"same", "mcp__stock__echo", `[1]`}, use{"", "read_file", `{"path": 5}`}),
		says("done"))
	d := newDesk(t, model)
	o := d.mustRun(t)
	got := model.last().results("tool")
	if len(got) != 3 || len(d.calls.all()) != 0 {
		t.Fatalf("results %q, calls %q", got, d.calls.all())
	}
	for i, want := range []string{"the arguments are not a JSON object", "the arguments are not a JSON object", "the arguments do not fit the tool"} {
		if !strings.HasPrefix(got[i], "Error: "+want) {
			t.Errorf("the model is told %q, want %q", got[i], want)
		}
	}
	ids := map[string]bool{}
	for _, m := range model.last().Messages {
		if m.Role == "tool" {
			ids[m.ToolCallID] = true
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" {
				t.Error("a call goes back without an id")
			}
		}
	}
	if len(ids) != 3 || string(o.events[1].Arguments) != `"{\"id\": 1"` {
		t.Errorf("results of %v, told %s", ids, o.events[1].Arguments)
	}
}

func TestTurns(t *testing.T) {
	model := newModel(t, asks(use{"", "mcp__stock__refuse", "{}"}))
	d := newDesk(t, model)
	d.input.MaxTurns = 3
	o := d.run(t)
	if !errors.Is(o.err, llm.ErrTurns) || o.err.Error() != "the model is not done: it has had its 3 turns (config.llm.max_turns) and asks for tools again" {
		t.Error(o.err)
	}
	if n := len(model.requests()); n != 3 || len(d.calls.all()) != 2 {
		t.Errorf("%d turns, %d calls", n, len(d.calls.all()))
	}
}

// A server that cannot list its tools is left out, and said so; one of a kind that is not
// wanted is not asked.
func TestBrokenServer(t *testing.T) {
	model := newModel(t, says("done"))
	d := newDesk(t, model)
	d.servers(t, map[string]string{"gone": "http://127.0.0.1:1/mcp"})
	if o := d.mustRun(t); !strings.HasPrefix(o.log, "server gone: its tools cannot be used: ") || strings.Count(o.log, "\n") != 1 {
		t.Errorf("logged %q", o.log)
	}
	d.input.Tools = []string{input.ToolsFiles}
	if o := d.mustRun(t); o.log != "" {
		t.Errorf("logged %q", o.log)
	}
	if _, _, ok := model.last().tool("run_command"); ok || len(model.last().Tools) != 4 {
		t.Errorf("tools %v", model.last().Tools)
	}
}

func TestSkills(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"SKILL.md": "---\nname: tides\n---\nAsk the moon.", "data/table.txt": "high at six"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	model := newModel(t, asks(
		use{"1", "skill", `{"skill":"tides"}`}, use{"2", "read_skill_file", `{"skill":"tides","path":"data/table.txt"}`},
		use{"3", "skill", `{"skill":"ebb"}`}, use{"4", "read_skill_file", `{"skill":"tides","path":"../../etc/hostname"}`},
		use{"5", "read_skill_file", `{"skill":"tides","path":"out"}`},
	), says("done"))
	d := newDesk(t, model)
	d.input.Skills = []input.Skill{{Name: "tides", Description: "When the\ntide is high.", Dir: dir}}
	o := d.mustRun(t)
	if system := model.last().results("system")[0]; !strings.Contains(system, "- tides: When the tide is high.") {
		t.Errorf("the system prompt is %q", system)
	}
	got := model.last().results("tool")
	for i, want := range []string{"Ask the moon.", "high at six", `Error: there is no skill "ebb"`, "Error: ", "Error: "} {
		if !strings.Contains(got[i], want) {
			t.Errorf("the model is told %q, want %q", got[i], want)
		}
	}
	if !strings.Contains(got[0], "data/table.txt") || o.events[1].ToolName != "skill" || string(o.events[1].Arguments) != `{"skill":"tides"}` {
		t.Errorf("told %q, event %+v", got[0], o.events[1])
	}
}

// Whatever the model's endpoint sends, the run ends in a sentence.
func TestHostileAnswers(t *testing.T) {
	many := make([]use, 129)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"no JSON":          {raw("<html>\x1b[2J" + strings.Repeat("x", 1000)), "the model sends something else than a chat completion: "},
		"no choice":        {raw(`{"choices":[]}`), "the model sends a chat completion without a choice"},
		"an error with ok": {raw(`{"error":{"message":"no"}}`), "the model sends a chat completion without a choice"},
		"many tools":       {asks(many...), "an answer that asks for 129 tools at once; at most 128 are run"},
		"a long name":      {asks(use{"u", strings.Repeat("x", 5000), "{}"}), "far too long"},
		"a huge answer":    {raw(strings.Repeat(" ", 16<<20+1)), "sends more than 16 MiB for one answer"},
		"deep":             {raw(strings.Repeat("[", 1<<20)), "something else than a chat completion"},
		"cut off":          {raw(`{"choices":[{"finish_reason":"length","message":{"content":"so"}}]}`), "the model's last answer is cut off at its limit of tokens"},
		"filtered":         {raw(`{"choices":[{"finish_reason":"content_filter","message":{}}]}`), "content filter"},
		"a redirect":       {fails(307, "", "Location", "http://192.0.2.1/"), "the model redirects (307), and redirects are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			model := newModel(t, test.answer)
			o := newDesk(t, model).run(t)
			if !errors.Is(o.err, llm.ErrModel) || !strings.Contains(o.err.Error(), test.says) || len(o.err.Error()) > 1500 || strings.Contains(o.err.Error(), "\x1b") {
				t.Errorf("ended with %v", o.err)
			}
			if n := len(model.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
