package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/runner"
)

// recorded is a run directory written by a test.
type recorded struct {
	t   *testing.T
	dir string
}

func newRecorded(t *testing.T) recorded {
	t.Helper()
	r := recorded{t, t.TempDir()}
	r.must(runner.Record{ID: "run"}.Write(r.dir))
	return r
}

func (r recorded) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r recorded) trial(trial evidence.Trial, verdicts evidence.Verdicts, calls []evidence.Call, models []evidence.ModelCall) {
	r.t.Helper()
	dir := evidence.Dir(filepath.Join(r.dir, "trials", trial.Task, string(rune('0'+trial.Number))))
	r.must(os.MkdirAll(string(dir), 0o755))
	r.must(dir.WriteTrial(trial))
	r.must(dir.WriteVerdicts(verdicts))
	r.must(dir.WriteCalls(calls))
	if models == nil {
		return
	}
	var lines bytes.Buffer
	for _, call := range models {
		line, err := json.Marshal(call)
		r.must(err)
		lines.Write(append(line, '\n'))
	}
	r.must(os.WriteFile(filepath.Join(string(dir), evidence.ModelsFile), lines.Bytes(), 0o644))
}

// show runs waza show with arguments after the run directory, which is printed as RUN.
func (r recorded) show(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	s, out, errs := testState(append([]string{"show", r.dir}, args...)...)
	code = s.main(r.t.Context())
	return strings.ReplaceAll(out.String(), r.dir, "RUN"), strings.ReplaceAll(errs.String(), r.dir, "RUN"), code
}

// second returns a time in the trial.
func second(n float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

func asked(seq int, start float64, request, response string) evidence.ModelCall {
	return evidence.ModelCall{
		Seq: seq, Dialect: dialect.Messages, Path: "/v1/messages", Model: "claude-x", Status: 200, ContentType: "application/json",
		Request: []byte(request), Response: []byte(response), Usage: &dialect.Usage{Input: 1200, Output: 34, Cached: 1000},
		Start: second(start), FirstByte: second(start), End: second(start + 1.5), Outcome: evidence.ModelOK,
	}
}

// priced is a trial whose agent finds a price, runs a program that calls the server without the
// model, and gets a busy response from a provider.
func (r recorded) priced() {
	busy := asked(2, 4, `{}`, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	busy.Status, busy.Outcome, busy.Usage = 529, evidence.ModelRefused, nil
	models := []evidence.ModelCall{
		asked(1, 0, `{"messages":[{"role":"user","content":"What does BRG-6204 cost?"}]}`,
			`{"type":"message","content":[{"type":"text","text":"I look it up."},{"type":"tool_use","id":"toolu_1","name":"mcp__inventory__find_item","input":{"sku":"BRG-6204"}},{"type":"tool_use","id":"toolu_2","name":"Bash","input":{"command":"cat list"}}]}`),
		busy,
		asked(3, 6, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"4.20"},{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"no file list"}]}]}]}`,
			`{"type":"message","content":[{"type":"text","text":"It costs 4.20.\nAnything else?"},{"type":"tool_use","id":"toolu_3","name":"Bash","input":{}}]}`),
		{Seq: 4, Path: "/v1/messages/count_tokens", Start: second(7), End: second(8), Outcome: evidence.ModelOK},
	}
	find := func(seq int, start float64, origin evidence.Origin, turn int, use, result string) evidence.Call {
		return evidence.Call{
			Seq: seq, Server: "inventory", Tool: "find_item", Arguments: json.RawMessage(`{"sku": "BRG-6204"}`), Outcome: evidence.OutcomeOK,
			Result: evidence.NewResult(json.RawMessage(result)), Start: second(start), End: second(start + 0.012), Origin: origin, Turn: turn, ToolUse: use,
		}
	}
	long, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": strings.Repeat("a line of many\n", 40)}}})
	r.must(err)
	calls := []evidence.Call{
		find(1, 2, evidence.OriginModel, 1, "toolu_1", `{"content":[{"type":"text","text":"{\n  \"price\": 4.20\n}"}]}`),
		find(2, 3, evidence.OriginOutOfBand, 0, "", string(long)),
		find(3, 3.5, evidence.OriginUnknown, 0, "", ""),
	}
	calls[2].Outcome, calls[2].Result, calls[2].Error = evidence.OutcomeProtocolError, evidence.Result{}, json.RawMessage(`{"code":-32602,"message":"no"}`)
	r.trial(
		evidence.Trial{Task: "price", Number: 1, Executor: "claude", Prompt: "What does BRG-6204 cost?\n", FinalOutput: "It costs 4.20.\n", Gaps: []string{"workspace: too large"}},
		evidence.Verdicts{Class: evidence.ClassFail, Verdicts: []evidence.Verdict{
			{Name: "told", Result: evidence.VerdictPass, Score: 1, Feedback: "All 1 checks passed."},
			{Name: "honest", Result: evidence.VerdictFail, Feedback: "Two things:\n- one\n- two"},
		}}, calls, models)
}

func (r recorded) plain(number int) {
	r.trial(
		evidence.Trial{Task: "hello", Number: number, Executor: "script", Prompt: "Say hello.", FinalOutput: "Hello."},
		evidence.Verdicts{Class: evidence.ClassPass},
		[]evidence.Call{{Seq: 1, Server: "s", Tool: "get", Outcome: evidence.OutcomeTimeout, Start: second(1), End: second(2), Origin: evidence.OriginUnknown}}, nil)
}

func TestShow(t *testing.T) {
	r := newRecorded(t)
	r.priced()
	r.plain(1)
	r.plain(2)
	for name, args := range map[string][]string{
		"clipped": {"price"}, "full": {"price/1", "--full"}, "without-models": {"hello/2"}, "list": nil, "list-task": {"hello"},
	} {
		out, complaint, code := r.show(args...)
		if code != exitOK || complaint != "" {
			t.Errorf("%s: exit code %d: %s", name, code, complaint)
		}
		file := filepath.Join("testdata", "show", name+".golden")
		golden.Check(t, file, out)
	}
}

// TestShowAsJSON reads what show prints as JSON.
func TestShowAsJSON(t *testing.T) {
	r := newRecorded(t)
	r.priced()
	r.plain(1)
	r.plain(2)
	read := func(to any, out string, code int) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), to); err != nil || code != exitOK {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
	}
	var trials []map[string]json.RawMessage
	for which, want := range map[string]int{"": 3, "price": 1, "hello": 2, "hello/2": 1} {
		out, _, code := r.show(append(strings.Fields(which), "--format", "json")...)
		if read(&trials, out, code); len(trials) != want {
			t.Errorf("%q: %d trials", which, len(trials))
		}
	}
	out, _, code := r.show("price", "--format", "json")
	read(&trials, out, code)
	if keys := slices.Sorted(maps.Keys(trials[0])); !slices.Equal(keys, []string{"calls", "events", "misreported", "missing", "trial", "turns", "verdicts"}) {
		t.Errorf("keys %q", keys)
	}
	var price []struct {
		Trial struct {
			Output string `json:"final_output"`
		} `json:"trial"`
		Turns []struct {
			Call map[string]any `json:"call"`
			Text string         `json:"text"`
			Uses []struct {
				Name string `json:"name"`
			} `json:"tool_uses"`
		} `json:"turns"`
		Calls []evidence.Call `json:"calls"`
		Gaps  []string        `json:"missing"`
	}
	read(&price, out, code)
	got := price[0]
	if got.Trial.Output != "It costs 4.20.\n" || len(got.Turns) != 3 || got.Turns[0].Text != "I look it up." || got.Turns[0].Uses[1].Name != "Bash" || len(got.Calls) != 3 || len(got.Gaps) != 1 {
		t.Errorf("%+v", got)
	}
	if call := got.Turns[0].Call; call["model"] != "claude-x" || call["request"] != nil || call["response"] != nil {
		t.Errorf("the call of a turn has %v", call)
	}
}

func TestShowRefuses(t *testing.T) {
	r := newRecorded(t)
	if _, complaint, code := r.show(); code != exitUsage || !strings.Contains(complaint, "no trial that has ended") {
		t.Errorf("an empty run: %d %s", code, complaint)
	}
	r.plain(1)
	for _, which := range []string{"price", "hello/2", "../trials/hello", "hell\x1b[2J"} {
		_, complaint, code := r.show(which)
		if code != exitUsage || !strings.Contains(complaint, "has no trial") || strings.ContainsRune(complaint, '\x1b') {
			t.Errorf("%q: %d %q", which, code, complaint)
		}
	}
	if _, complaint, code := r.show("hello", "1", "more"); code != exitUsage || complaint == "" {
		t.Errorf("four arguments: %d", code)
	}
	if _, complaint, code := (recorded{t, t.TempDir()}).show(); code != exitUsage || !strings.Contains(complaint, "not a run directory") {
		t.Errorf("a directory: %d %s", code, complaint)
	}
}

// obeyedByCI are sequences that CI systems interpret in logs.
var obeyedByCI = regexp.MustCompile(`(?m)^\s*::[A-Za-z]|##[A-Za-z]*\[`)

// TestShowIsPrintable has everything that a stranger says try to control the terminal, and
// to look like a line of ours.
func TestShowIsPrintable(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;x\a\r\u009b31m\u202e\u2066\u2028\x00\nverdicts\n  forged  pass  1.00\n  ::error::x\n##vso[task.setvariable]\n"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	said := string(quoted)
	use := `{"type":"tool_use","id":"a","name":` + said + `,"input":{"x":` + said + `}}`
	model := asked(1, 0, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":`+said+`}]}]}`,
		`{"type":"message","content":[{"type":"text","text":`+said+`},`+use+`]}`)
	model.Model = evil
	broken := asked(2, 2, `{}`, `{"type":"error","error":{"message":`+said+`}}`)
	broken.Outcome, broken.Error, broken.Status = evil, evil, 500
	call := evidence.Call{
		Seq: 1, Server: evil, Tool: evil, Arguments: json.RawMessage(`{"x":` + said + `}`), Outcome: evidence.Outcome(evil),
		Result: evidence.NewResult(json.RawMessage(`{"content":[{"type":"text","text":` + said + `}]}`)), Start: second(1), End: second(2),
	}
	r := newRecorded(t)
	r.trial(
		evidence.Trial{Task: "t", Number: 1, Executor: evil, Prompt: evil, FinalOutput: evil, Gaps: []string{evil}},
		evidence.Verdicts{Class: evidence.ClassFail, Message: evil, Verdicts: []evidence.Verdict{{Name: evil, Result: evidence.VerdictFail, Feedback: evil}}},
		[]evidence.Call{call}, []evidence.ModelCall{model, broken})
	for _, args := range [][]string{{"t"}, {"t", "--full"}} {
		out, complaint, code := r.show(args...)
		if code != exitOK {
			t.Fatalf("%d %s", code, complaint)
		}
		if i := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsGraphic(c) }); i >= 0 {
			t.Errorf("%q gets through in %q", out[i], out[max(0, i-20):i+10])
		}
		if found := obeyedByCI.FindString(out); found != "" {
			t.Errorf("a CI system obeys %q", found)
		}
		_, verdicts, _ := strings.Cut(out, "\nverdicts\n")
		if strings.Contains(verdicts, "\nverdicts\n") || strings.Contains(verdicts, "\n  forged") {
			t.Errorf("a line of ours is forged:\n%s", verdicts)
		}
	}
}
