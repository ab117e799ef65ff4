package capture_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// made is a call that succeeded with a text.
func made(server, tool, arguments, said string) evidence.Call {
	result, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": said}}})
	return evidence.Call{Server: server, Tool: tool, Arguments: json.RawMessage(arguments), Result: evidence.NewResult(result), Outcome: evidence.OutcomeOK}
}

func refused(call evidence.Call) evidence.Call {
	call.Outcome = evidence.OutcomeToolError
	return call
}

// dropped is a call that gets no answer because of a fault that waza made.
func dropped(call evidence.Call) evidence.Call {
	call.Outcome, call.Fault, call.RequestFrame = evidence.OutcomeTransportError, evidence.FaultDrop, -1
	call.Result = evidence.Result{}
	return call
}

func abandoned(call evidence.Call) evidence.Call {
	call.Outcome = evidence.OutcomeAbandoned
	return call
}

// claims builds a transcript.
type claims []evidence.TranscriptEvent

func (c claims) start(tool, arguments string) claims {
	return append(c, evidence.TranscriptEvent{
		Type: "tool.execution_start", ToolCallID: fmt.Sprint(len(c)), ToolName: tool, Arguments: json.RawMessage(arguments),
	})
}

// tell reports the start and the end of a tool use.
func (c claims) tell(tool, arguments string, ok bool, result string) claims {
	id := fmt.Sprint(len(c))
	return append(c.start(tool, arguments), evidence.TranscriptEvent{
		Type: "tool.execution_complete", ToolCallID: id, Success: &ok, ToolResult: json.RawMessage(result),
	})
}

// story writes a narration in short.
func story(n evidence.Narration) []string {
	var all []string
	for _, c := range n.Unbacked {
		all = append(all, fmt.Sprintf("unbacked %s %s", c.Name, c.Arguments))
	}
	for _, seq := range n.Unreported {
		all = append(all, fmt.Sprintf("unreported %d", seq))
	}
	for _, d := range n.Differs {
		all = append(all, fmt.Sprintf("%s of %d: %s, was %s", d.In, d.Call, d.Claimed, d.Actual))
	}
	for _, c := range n.Ambiguous {
		all = append(all, fmt.Sprintf("ambiguous %s %v %d", c.Name, c.Tools, c.Call))
	}
	return all
}

func narrate(listed map[string][]string, calls []evidence.Call, reported claims) evidence.Narration {
	captured := capture.Result{Calls: calls}
	for i := range calls {
		calls[i].Seq = i + 1
	}
	var servers []string
	for server, tools := range listed {
		servers = append(servers, server)
		listed := evidence.Catalog{Server: server}
		for _, tool := range tools {
			listed.Tools = append(listed.Tools, evidence.Tool{Name: tool})
		}
		captured.Catalogs = append(captured.Catalogs, listed)
	}
	return capture.Pair(capture.Tools(servers, captured), calls, reported).Narration()
}

func TestNarrate(t *testing.T) {
	listed := map[string][]string{"gh": {"get", "put", "read"}, "quiet": nil, "a_b": {"c"}, "a": {"b_c"}, "z": {"b_c"}}
	for _, test := range []struct {
		name     string
		calls    []evidence.Call
		reported claims
		want     []string
	}{
		{"nothing", nil, nil, nil},
		{"as it was", []evidence.Call{made("gh", "get", `{"n":1}`, "one")}, claims{}.tell("mcp__gh__get", `{"n":1.0}`, true, `"one"`), nil},
		{"never made", nil, claims{}.tell("gh-get", `{}`, true, `"one"`), []string{"unbacked gh-get {}"}},
		{"told twice, made once", []evidence.Call{made("gh", "get", `{}`, "")}, claims{}.start("gh-get", `{}`).start("gh-get", `{}`), []string{"unbacked gh-get {}"}},
		{"hidden", []evidence.Call{made("gh", "get", `{}`, ""), made("gh", "put", `{}`, "")}, claims{}.start("gh-get", `{}`), []string{"unreported 2"}},
		{"of a tool that is not there", nil, claims{}.start("mcp__gh__gets", `{}`), []string{"unbacked mcp__gh__gets {}"}},
		{"of a tool that is not there, called", []evidence.Call{made("gh", "gets", `{}`, "")}, claims{}.start("mcp__gh__gets", `{}`), nil},
		{"of a server that lists nothing", nil, claims{}.start("mcp__quiet__x", `{}`), []string{"unbacked mcp__quiet__x {}"}},
		{"of a server that lists nothing, called", []evidence.Call{made("quiet", "x", `{}`, "")}, claims{}.start("quiet_x", `{}`), nil},
		{"arguments", []evidence.Call{made("gh", "get", `{"n":1}`, "")}, claims{}.start("gh-get", `{"n":"1"}`), []string{`arguments of 1: {"n":"1"}, was {"n":1}`}},
		{"arguments not told", []evidence.Call{made("gh", "get", `{"n":1}`, "")}, claims{}.start("gh-get", ""), nil},
		{"null for no arguments", []evidence.Call{made("gh", "get", `{}`, "")}, claims{}.start("gh-get", "null"), nil},
		{"success of what failed", []evidence.Call{refused(made("gh", "get", `{}`, "no"))}, claims{}.tell("gh-get", `{}`, true, ""), []string{"outcome of 1: ok, was tool_error"}},
		{"failure of what was abandoned", []evidence.Call{abandoned(made("gh", "get", `{}`, ""))}, claims{}.tell("gh-get", `{}`, false, `"connection closed"`), nil},
		{"success of what was abandoned", []evidence.Call{abandoned(made("gh", "get", `{}`, ""))}, claims{}.tell("gh-get", `{}`, true, `"one"`), []string{"outcome of 1: ok, was abandoned"}},
		{"failure of what succeeded", []evidence.Call{made("gh", "get", `{}`, "yes")}, claims{}.tell("gh-get", `{}`, false, ""), []string{"outcome of 1: failed, was ok"}},
		{"failure of what succeeded, after a fault of another call", []evidence.Call{dropped(made("gh", "get", `{}`, "")), made("gh", "put", `{}`, "yes")}, claims{}.tell("gh-get", `{}`, false, "").tell("gh-put", `{}`, false, `"closed"`), nil},
		{"success with another result, after a fault of another call", []evidence.Call{dropped(made("gh", "get", `{}`, "")), made("gh", "put", `{}`, "yes")}, claims{}.tell("gh-get", `{}`, false, "").tell("gh-put", `{}`, true, `"no"`), []string{"result of 2: no, was yes"}},
		{"another result", []evidence.Call{made("gh", "get", `{}`, "15 cents")}, claims{}.tell("gh-get", `{}`, true, `"99 cents"`), []string{"result of 1: 99 cents, was 15 cents"}},
		{
			"equal arguments before order",
			[]evidence.Call{made("gh", "get", `{"n":1}`, ""), made("gh", "get", `{"n":2}`, "")},
			claims{}.start("gh-get", `{"n":2}`).start("gh-get", `{"n":3}`),
			[]string{`arguments of 1: {"n":3}, was {"n":1}`},
		},
		{
			"equal calls made at once, told in another order",
			[]evidence.Call{made("gh", "get", `{}`, "one"), refused(made("gh", "get", `{}`, "two")), made("gh", "get", `{}`, "three")},
			claims{}.tell("gh-get", `{}`, true, `"three"`).tell("gh-get", `{}`, true, `"one"`).tell("gh-get", `{}`, false, `"two"`),
			nil,
		},
		{"another server's", []evidence.Call{made("a", "get", `{}`, "")}, claims{}.start("gh-get", `{}`), []string{"unbacked gh-get {}", "unreported 1"}},
		{"a name of two tools, neither called", nil, claims{}.start("a_b_c", `{}`), []string{"unbacked a_b_c {}"}},
		{
			"a name of two tools, one called",
			[]evidence.Call{made("a", "b_c", `{}`, "")}, claims{}.start("a_b_c", `{}`),
			[]string{"ambiguous a_b_c [{a b_c} {a_b c}] 1"},
		},
		{
			"a name of two tools beside a clear one",
			[]evidence.Call{made("a", "b_c", `{}`, ""), made("a_b", "c", `{}`, "")}, claims{}.start("a_b_c", `{}`).start("mcp__a__b_c", `{}`),
			[]string{"ambiguous a_b_c [{a b_c} {a_b c}] 2"},
		},
		{
			"names of several tools that share one",
			[]evidence.Call{made("a", "b_c", `{}`, ""), made("a_b", "c", `{}`, "")}, claims{}.start("a_b_c", `{}`).start("b_c", `{}`),
			[]string{"ambiguous a_b_c [{a b_c} {a_b c}] 2", "ambiguous b_c [{a b_c} {z b_c}] 1"},
		},
		{"a builtin tool", nil, claims{}.start("bash", `{}`), nil},
		{"a bare name, called", []evidence.Call{made("gh", "read", `{"p":1}`, "")}, claims{}.start("read", `{"p":1}`), nil},
		{"a bare name that nothing speaks for", nil, claims{}.start("read", `{"p":1}`), []string{"ambiguous read [{gh read}] 0"}},
		{
			"a bare name beside others with a server's: a tool of the agent's own",
			[]evidence.Call{made("gh", "get", `{}`, "")}, claims{}.start("read", `{"p":1}`).start("gh-get", `{}`), nil,
		},
		{
			"a bare name beside other bare ones that are calls: a claim",
			[]evidence.Call{made("gh", "get", `{}`, "")}, claims{}.start("read", `{"p":1}`).start("get", `{}`),
			[]string{`unbacked read {"p":1}`},
		},
		{
			"bare names, one with other arguments",
			[]evidence.Call{made("gh", "get", `{}`, ""), made("gh", "read", `{"p":2}`, "")}, claims{}.start("read", `{"p":1}`).start("get", `{}`),
			[]string{`arguments of 2: {"p":1}, was {"p":2}`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, story(narrate(listed, test.calls, test.reported))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReportedResults(t *testing.T) {
	long := strings.Repeat("All work and no play. ", 40)
	call := made("gh", "get", `{}`, "first line\n{\"price\": 15}\n"+long)
	number := made("gh", "get", `{}`, `{"price": 15.0, "of": "bolt"}`)
	number.Result = evidence.NewResult(json.RawMessage(`{"content":[{"type":"text","text":"{\"price\": 15.0, \"of\": \"bolt\"}"}],"structuredContent":{"of":"bolt","price":15}}`))
	image := evidence.Call{Result: evidence.NewResult(json.RawMessage(`{"content":[{"type":"image","data":""},{"type":"text","text":"a bolt"}]}`)), Outcome: evidence.OutcomeOK, Server: "gh", Tool: "get", Arguments: json.RawMessage(`{}`)}
	asJSON := func(v any) string {
		data, _ := json.Marshal(v)
		return string(data)
	}
	raw, _ := call.Result.Raw()
	whole := "first line\n{\"price\": 15}\n" + long
	for _, test := range []struct {
		name     string
		call     evidence.Call
		reported string
		same     bool
	}{
		{"none", call, ``, true},
		{"null", call, `null`, true},
		{"text", call, asJSON(whole), true},
		{"the result", call, string(raw), true},
		{"the result as a string", call, asJSON(string(raw)), true},
		{"blocks", call, asJSON([]map[string]string{{"type": "text", "text": whole}}), true},
		{"lines around it", call, asJSON("Result of the tool:\n" + whole + "\nsystem: go on"), true},
		{"other line ends", call, asJSON(strings.ReplaceAll(whole, "\n", "\r\n")), true},
		{"under another key", call, asJSON(map[string]any{"output": whole, "exit": 0}), true},
		{"another text", call, asJSON("first line"), false},
		{"the reverse", call, asJSON("not " + whole), false},
		{"one character", call, asJSON(strings.Replace(whole, "15", "16", 1)), false},
		{"nothing, told", call, `""`, false},
		{"cut off with dots", call, asJSON(whole[:60] + "…"), true},
		{"cut off with words", call, asJSON(whole[:60] + "... [truncated 837 chars]"), true},
		{"the middle left out", call, asJSON(whole[:60] + "\n... +12 lines (output truncated)\n" + whole[len(whole)-40:]), true},
		{"a long beginning", call, asJSON(whole[:300]), true},
		{"a short beginning", call, asJSON(whole[:30]), false},
		{"another number, then cut off", call, asJSON("first line\n{\"price\": 16 ... [truncated]"), false},
		{"a number as a mark", call, asJSON("first line\n{\"price\": ...99"), false},
		{"a sentence as a mark", call, asJSON(whole[:60] + "[and the rest says that all is well]"), false},
		{"a sentence in a mark", call, asJSON(whole[:60] + "... [truncated, and all is well]"), false},
		{"as JSON", number, `{"of":"bolt","price":15}`, true},
		{"as other JSON", number, `{"of":"bolt","price":16}`, false},
		{"an image's text is not compared", image, `"a nut"`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := narrate(map[string][]string{"gh": {"get"}}, []evidence.Call{test.call}, claims{}.tell("gh-get", `{}`, true, test.reported))
			if same := len(n.Differs) == 0; same != test.same || len(n.Unbacked)+len(n.Unreported) != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestTell(t *testing.T) {
	n := narrate(map[string][]string{"gh": {"get", "put"}, "a_b": {"c"}, "a": {"b_c"}},
		[]evidence.Call{made("gh", "get", `{"n":1}`, "one"), refused(made("gh", "put", `{}`, "no")), made("a", "b_c", `{}`, "")},
		claims{}.tell("gh-get", `{"n":2}`, true, `"one"`).start("gh-get", `{"n":7}`).start("a_b_c", `{}`))
	calls := []evidence.Call{{}, {Seq: 2, Server: "gh", Tool: "put", Outcome: evidence.OutcomeToolError}, {}}
	want := []string{
		`the agent reports 1 call that was never made: gh-get {"n":7}`,
		`the agent does not report 1 call that it made: call 2, gh/put {}, tool_error`,
		`the agent misreports 1 detail: arguments of call 1 (gh-get): says {"n":2}, was {"n":1}`,
		`it is not clear which tool the agent means in 1 call: a_b_c may be a/b_c or a_b/c`,
	}
	if diff := cmp.Diff(want, capture.Describe(n, calls)); diff != "" {
		t.Error(diff)
	}
	if got := capture.Describe(evidence.Narration{}, nil); got != nil {
		t.Errorf("%q", got)
	}
}

// The order of calls in a transcript does not change how many are paired.
func TestNarrationDoesNotDependOnOrder(t *testing.T) {
	listed := map[string][]string{"x": {"t", "u"}, "a_b": {"c"}, "a": {"b_c"}}
	rapid.Check(t, func(t *rapid.T) {
		var calls []evidence.Call
		for range rapid.IntRange(0, 6).Draw(t, "calls") {
			ref := rapid.SampledFrom([]evidence.ToolRef{{Server: "x", Tool: "t"}, {Server: "x", Tool: "u"}, {Server: "a_b", Tool: "c"}, {Server: "a", Tool: "b_c"}}).Draw(t, "tool")
			call := made(ref.Server, ref.Tool, rapid.SampledFrom([]string{`{}`, `{"n":1}`}).Draw(t, "arguments"), rapid.SampledFrom([]string{"p", "q"}).Draw(t, "result"))
			if rapid.Bool().Draw(t, "refused") {
				call = refused(call)
			}
			calls = append(calls, call)
		}
		type use struct {
			name, arguments, result string
			ok                      bool
		}
		uses := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) use {
			return use{
				rapid.SampledFrom([]string{"x-t", "x-u", "a_b_c", "mcp__a__b_c", "mcp__a_b__c", "t", "bash"}).Draw(t, "name"),
				rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n":2}`}).Draw(t, "arguments"),
				rapid.SampledFrom([]string{`"p"`, `"q"`}).Draw(t, "result"), rapid.Bool().Draw(t, "ok"),
			}
		}), 0, 7).Draw(t, "uses")
		count := func() [5]int {
			var reported claims
			for _, u := range uses {
				reported = reported.tell(u.name, u.arguments, u.ok, u.result)
			}
			n := narrate(listed, calls, reported)
			differs := map[string]int{}
			for _, d := range n.Differs {
				differs[d.In]++
			}
			return [5]int{n.Reported, len(n.Unbacked), len(n.Unreported), len(n.Ambiguous), differs[evidence.DiffersArguments]}
		}
		want := count()
		seed := rapid.Int64().Draw(t, "order")
		rand.New(rand.NewSource(seed)).Shuffle(len(uses), func(i, j int) { uses[i], uses[j] = uses[j], uses[i] })
		if got := count(); got != want {
			t.Fatalf("told, unbacked, unreported, ambiguous, other arguments: %v; in another order %v", want, got)
		}
	})
}

func BenchmarkNarrate(b *testing.B) {
	var calls []evidence.Call
	var reported claims
	for i := range 10_000 {
		arguments := fmt.Sprintf(`{"n":%d}`, i)
		calls = append(calls, made("gh", "get", arguments, "result"))
		reported = reported.tell("mcp__gh__get", arguments, true, `"result"`)
	}
	for b.Loop() {
		if n := narrate(map[string][]string{"gh": {"get"}}, calls, reported); capture.Describe(n, calls) != nil {
			b.Fatal(n)
		}
	}
}

func FuzzNarrate(f *testing.F) {
	f.Add("gh-get", `{"n":1}`, `"one"`, `{"content":[{"type":"text","text":"one"}]}`, true)
	f.Add("get", `null`, `[{"text":"…"}]`, `{"content":[{}]}`, false)
	f.Add("mcp__gh__x", `{`, `"... [3 more`, `{"content":"x"}`, true)
	f.Fuzz(func(t *testing.T, name, arguments, result, was string, ok bool) {
		call := evidence.Call{Server: "gh", Tool: "get", Arguments: json.RawMessage(arguments), Result: evidence.NewResult(json.RawMessage(was)), Outcome: evidence.OutcomeOK}
		n := narrate(map[string][]string{"gh": {"get"}}, []evidence.Call{call}, claims{}.tell(name, arguments, ok, result).start(name, ""))
		if _, err := json.Marshal(n); err != nil {
			t.Error(err)
		}
		capture.Describe(n, []evidence.Call{call})
	})
}
