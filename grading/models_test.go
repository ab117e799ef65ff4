package grading_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// modelled is a trial whose agent asked a model twice, with [scene.frames] in between: a
// call that the model asked for, and then the same call from another program.
func modelled() scene {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	frames := concat(call("github", "1", "get", `{}`, answered), call("github", "2", "get", `{}`, answered))
	for i, second := range []int{2, 3, 6, 7} {
		frames[i].Time = at(second)
	}
	asks := func(seq, second int, request, response string) evidence.ModelCall {
		return evidence.ModelCall{
			Seq: seq, Dialect: dialect.Messages, Path: "/v1/messages", Model: "m", Status: 200, ContentType: "application/json",
			Request: []byte(request), Response: []byte(response), Usage: &dialect.Usage{Input: 100, Output: 10},
			Start: at(second), FirstByte: at(second), End: at(second + 1), Outcome: evidence.ModelOK,
		}
	}
	return scene{
		trial:  evidence.Trial{Executor: "claude", Servers: servers("github"), Plan: json.RawMessage(`{"models":{"provider":"p"}}`)},
		frames: frames,
		models: []evidence.ModelCall{
			asks(1, 0, `{"messages":[{"role":"user","content":"x"}]}`, `{"type":"message","content":[{"type":"tool_use","id":"toolu_1","name":"mcp__github__get","input":{}}]}`),
			asks(2, 4, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}]}`, `{"type":"message","content":[{"type":"text","text":"done"}]}`),
		},
	}
}

// origins grades s, and returns the origin of each call in calls.jsonl.
func origins(t *testing.T, s scene) (reported []string) {
	t.Helper()
	dir := lay(t, s)
	if _, err := gradeIn(dir); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(string(dir), evidence.CallsFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gradeIn(dir); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(string(dir), evidence.CallsFile))
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("graded again, calls.jsonl differs: %v\n%s\n%s", err, first, again)
	}
	calls, err := dir.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		reported = append(reported, fmt.Sprintf("%s %d %s", call.Origin, call.Turn, call.ToolUse))
	}
	return reported
}

func TestOrigins(t *testing.T) {
	whole := modelled()
	nobody := modelled()
	nobody.models = nil
	lost := modelled()
	lost.trial.Gaps = []string{"models: the disk is full"}
	direct := modelled()
	direct.models, direct.trial.Plan = nil, nil
	for _, c := range []struct {
		name string
		s    scene
		want []string
	}{
		{"a call made again behind the model's back", whole, []string{"model 1 toolu_1", "out_of_band 0 "}},
		{"a gateway that nobody asked", nobody, []string{"out_of_band 0 ", "out_of_band 0 "}},
		{"a record with a gap", lost, []string{"model 1 toolu_1", "unknown 0 "}},
		{"no gateway", direct, []string{"unknown 0 ", "unknown 0 "}},
	} {
		if diff := cmp.Diff(c.want, origins(t, c.s)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestTokens(t *testing.T) {
	s := modelled()
	untold := modelled()
	untold.models[1].Usage = nil
	refused := modelled()
	refused.models[1].Usage, refused.models[1].Status, refused.models[1].Outcome = nil, 429, evidence.ModelRefused
	lost := modelled()
	lost.trial.Gaps = []string{"models: the disk is full"}
	direct := modelled()
	direct.models, direct.trial.Plan = nil, nil
	unasked := modelled()
	unasked.models = nil
	run(t, "behavior", []check{
		{"as many as may be", s, `{"max_tokens":220}`, pass, 1, ""},
		{"too many", s, `{"max_tokens":219}`, fail, 0, "Expected at most 219 tokens; 220 were used: 200 in, 20 out."},
		{"no model was asked", unasked, `{"max_tokens":1}`, pass, 1, ""},
		{"a provider that does not count", untold, `{"max_tokens":500}`, cannotSay, 0, "reported no tokens of model call 2"},
		{"a request that was refused", refused, `{"max_tokens":110}`, pass, 1, ""},
		{"a record with a gap", lost, `{"max_tokens":500}`, cannotSay, 0, "disk is full"},
		{"no gateway", direct, `{"max_tokens":500}`, cannotSay, 0, "what the agent asked models was not recorded"},
	})
}

// Tokens in the agent's transcript are reported next to those of models, and not graded.
func TestReportedTokens(t *testing.T) {
	s := modelled()
	s.transcript = `{"type":"assistant.message","content":"x"}
{"type":"assistant.usage","usage":{"input":5,"output":1}}
{"type":"assistant.usage","usage":{"input":6,"output":2}}
`
	for _, gateway := range []bool{true, false} {
		want := &evidence.Tokens{Reported: dialect.Usage{Input: 11, Output: 3}, Wire: &dialect.Usage{Input: 200, Output: 20}}
		if !gateway {
			s.models, s.trial.Plan, want.Wire = nil, nil, nil
		}
		dir := lay(t, s)
		if _, err := gradeIn(dir); err != nil {
			t.Fatal(err)
		}
		n, err := dir.Narration()
		if diff := cmp.Diff(want, n.Tokens); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}
