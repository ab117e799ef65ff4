package transcript_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
)

func jsonl(rules ...transcript.Rule) transcript.Source {
	return transcript.Source{From: "stdout", Format: transcript.FormatJSONL, Events: rules}
}

// streamJSON reads what Claude Code prints with --output-format stream-json.
func streamJSON() transcript.Source {
	return jsonl(
		transcript.Rule{
			When: map[string]any{"type": "assistant"}, Each: "message.content", Where: map[string]any{"type": "tool_use"},
			Type: transcript.ToolStart, ID: "id", Name: "name", Arguments: "input",
		},
		transcript.Rule{
			When: map[string]any{"type": "user"}, Each: "message.content", Where: map[string]any{"type": "tool_result"},
			Type: transcript.ToolEnd, ID: "tool_use_id", Result: "content", Error: "is_error",
		},
		transcript.Rule{
			When: map[string]any{"type": "assistant"}, Each: "message.content", Where: map[string]any{"type": "text"},
			Type: transcript.Message, Content: "text",
		},
	)
}

// execJSON reads what Codex prints with exec --json.
func execJSON() transcript.Source {
	mcp := func(event string) map[string]any { return map[string]any{"type": event, "item.type": "mcp_tool_call"} }
	return jsonl(
		transcript.Rule{When: mcp("item.started"), Type: transcript.ToolStart, ID: "item.id", Server: "item.server", Name: "item.tool", Arguments: "item.arguments"},
		transcript.Rule{When: mcp("item.completed"), Type: transcript.ToolEnd, ID: "item.id", Result: "item.result", Error: "item.error"},
		transcript.Rule{When: map[string]any{"type": "item.completed", "item.type": "agent_message"}, Type: transcript.Message, Content: "item.text"},
	)
}

func read(t *testing.T, s transcript.Source, lines ...string) ([]string, transcript.Report) {
	t.Helper()
	if p := s.Problems(); p != nil {
		t.Fatal(p)
	}
	var got []string
	report, err := s.Read(strings.NewReader(strings.Join(lines, "\n")), func(e evidence.TranscriptEvent) error {
		line, err := json.Marshal(e)
		got = append(got, string(line))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, report
}

func TestStreamJSON(t *testing.T) {
	got, report := read(t, streamJSON(),
		`{"type":"system","subtype":"init","tools":["Bash","mcp__stock__find"]}`,
		`{"type":"assistant","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Looking."},{"type":"tool_use","id":"toolu_1","name":"mcp__stock__find","input":{"id":9007199254740993}},{"type":"tool_use","id":"toolu_2","name":"Bash","input":{"command":"ls"}}]}}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","content":"no such file","is_error":true}]}}`,
		`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":[{"type":"text","text":"found"}]}]}}`,
		`{"type":"user","message":{"role":"user","content":"plain text"}}`,
		`{"type":"result","subtype":"success","is_error":false,"result":"Done."}`,
	)
	want := []string{
		`{"type":"tool.execution_start","tool_call_id":"toolu_1","tool_name":"mcp__stock__find","arguments":{"id":9007199254740993}}`,
		`{"type":"tool.execution_start","tool_call_id":"toolu_2","tool_name":"Bash","arguments":{"command":"ls"}}`,
		`{"type":"assistant.message","content":"Looking."}`,
		`{"type":"tool.execution_complete","tool_call_id":"toolu_2","success":false,"tool_result":"no such file"}`,
		`{"type":"tool.execution_complete","tool_call_id":"toolu_1","success":true,"tool_result":[{"type":"text","text":"found"}]}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(transcript.Report{Events: 5}, report); diff != "" {
		t.Error(diff)
	}
}

func TestExecJSON(t *testing.T) {
	got, _ := read(t, execJSON(),
		`{"type":"thread.started","thread_id":"t"}`,
		`{"type":"item.started","item":{"id":"item_0","type":"mcp_tool_call","server":"stock","tool":"find","arguments":{"n":1},"result":null,"error":null,"status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"item_0","type":"mcp_tool_call","server":"stock","tool":"find","arguments":{"n":1},"result":{"content":[{"type":"text","text":"found"}],"structured_content":null},"error":null,"status":"completed"}}`,
		`{"type":"item.started","item":{"id":"item_1","type":"mcp_tool_call","server":"stock","tool":"put","arguments":null,"result":null,"error":null}}`,
		`{"type":"item.completed","item":{"id":"item_1","type":"mcp_tool_call","server":"stock","tool":"put","arguments":null,"result":null,"error":{"message":"no"},"status":"failed"}}`,
		`{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"Done."}}`,
	)
	want := []string{
		`{"type":"tool.execution_start","tool_call_id":"item_0","tool_name":"mcp__stock__find","arguments":{"n":1}}`,
		`{"type":"tool.execution_complete","tool_call_id":"item_0","success":true,"tool_result":{"content":[{"type":"text","text":"found"}],"structured_content":null}}`,
		`{"type":"tool.execution_start","tool_call_id":"item_1","tool_name":"mcp__stock__put","arguments":null}`,
		`{"type":"tool.execution_complete","tool_call_id":"item_1","success":false,"tool_result":null}`,
		`{"type":"assistant.message","content":"Done."}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Success is read from a status, and reported only for lines that have one. A line may
// report a tool without its name.
func TestStatus(t *testing.T) {
	got, report := read(t, jsonl(
		transcript.Rule{When: map[string]any{"item.type": "command"}, Type: transcript.ToolStart, ID: "item.id", Tool: "shell", Arguments: "item.line"},
		transcript.Rule{When: map[string]any{"item.type": "command"}, Type: transcript.ToolEnd, ID: "item.id", OK: map[string]any{"item.status": "completed", "item.code": json.Number("0")}},
	),
		`{"item":{"type":"command","id":"1","line":"ls","status":"completed","code":0}}`,
		`{"item":{"type":"command","id":"2","line":"ls","status":"failed","code":0}}`,
		`{"item":{"type":"command","id":"3","line":"ls","status":"failed"}}`,
	)
	want := []string{
		`{"type":"tool.execution_start","tool_call_id":"1","tool_name":"shell","arguments":"ls"}`,
		`{"type":"tool.execution_complete","tool_call_id":"1","success":true}`,
		`{"type":"tool.execution_start","tool_call_id":"2","tool_name":"shell","arguments":"ls"}`,
		`{"type":"tool.execution_complete","tool_call_id":"2","success":false}`,
		`{"type":"tool.execution_start","tool_call_id":"3","tool_name":"shell","arguments":"ls"}`,
		`{"type":"tool.execution_complete","tool_call_id":"3"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || report.Unread > 0 {
		t.Error(diff, report)
	}
}

// Pieces of a message are one until something else is told, or the transcript ends.
func TestPieces(t *testing.T) {
	say := func(text string) string { return `{"role":"assistant","delta":"` + text + `"}` }
	huge := say(strings.Repeat("x", 5<<20))
	got, report := read(t, jsonl(
		transcript.Rule{When: map[string]any{"role": "assistant"}, Type: transcript.Message, Content: "delta", Joined: true},
		transcript.Rule{When: map[string]any{"role": "tool"}, Type: transcript.ToolStart, ID: "id", Name: "id"},
	), say("Look"), `{"role":"user"}`, say("ing"), say("."), `{"role":"tool","id":"a"}`, `{"role":"tool","id":"b"}`, say(""), say("Done"), say("."))
	want := []string{
		`{"type":"assistant.message","content":"Looking."}`,
		`{"type":"tool.execution_start","tool_call_id":"a","tool_name":"a"}`,
		`{"type":"tool.execution_start","tool_call_id":"b","tool_name":"b"}`,
		`{"type":"assistant.message","content":"Done."}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || report.Events != 4 {
		t.Error(diff, report)
	}
	got, report = read(t, jsonl(transcript.Rule{Type: transcript.Message, Content: "delta", Joined: true}), huge, huge)
	if len(got) != 1 || len(got[0]) > 6<<20 || report.Unread != 1 || report.Why[0] != "line 2: a message longer than 8388608 bytes" {
		t.Errorf("%d messages, %+v", len(got), report)
	}
}

// Rules read other shapes: arguments in a string, ids that are numbers, a boolean for
// success, places in lists, a start and an end in one line.
func TestRules(t *testing.T) {
	got, report := read(t, jsonl(
		transcript.Rule{When: map[string]any{"role": "assistant", "calls.0.kind": json.Number("1")}, Each: "calls", Type: transcript.ToolStart, ID: "id", Name: "function.name", Arguments: "function.arguments"},
		transcript.Rule{When: map[string]any{"role": "assistant"}, Each: "calls", Where: map[string]any{"done": true}, Type: transcript.ToolEnd, ID: "id", OK: map[string]any{"fine": true}, Result: "out"},
		transcript.Rule{When: map[string]any{"role": "assistant", "to": nil}, Type: transcript.Message, Content: "content"},
	),
		`{"role":"assistant","to":"me","calls":[{"kind":1.0,"id":7,"function":{"name":"get","arguments":" {\"n\":1}"}},{"id":8,"function":{"name":"run","arguments":"ls"},"done":true,"fine":false,"out":"x"},{"id":9,"done":true}]}`,
		`{"role":"assistant","to":null,"content":[{"text":"a"},{"image":1},{"text":"b"}]}`,
		`{"role":"assistant","content":"to is not there"}`,
		`{"role":"assistant","to":null,"content":""}`,
		`{"role":"user","to":null,"content":"c"}`,
	)
	want := []string{
		`{"type":"tool.execution_start","tool_call_id":"7","tool_name":"get","arguments":{"n":1}}`,
		`{"type":"tool.execution_start","tool_call_id":"8","tool_name":"run","arguments":"ls"}`,
		`{"type":"tool.execution_complete","tool_call_id":"8","success":false,"tool_result":"x"}`,
		`{"type":"tool.execution_complete","tool_call_id":"9"}`,
		`{"type":"assistant.message","content":"a\nb"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(transcript.Report{Events: 5, Unread: 1, Why: []string{"line 1: events[0]: a tool without a name"}}, report); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	long := `{"type":"assistant","x":"` + strings.Repeat("x", 8<<20) + `"}`
	say := `{"type":"assistant.message","content":"here"}`
	got, report := read(t, transcript.Source{From: "stdout", Format: transcript.FormatWaza},
		"npm warn something", "[1]", "", `{"type":`, long, `{"type":7}`, "  "+say+"\r", `{"type":"assistant.mess`)
	if diff := cmp.Diff([]string{say}, got); diff != "" {
		t.Error(diff)
	}
	want := transcript.Report{Events: 1, Ignored: 2, Unread: 3, Torn: true, Why: []string{
		"line 4: starts like a JSON object but is not one",
		"line 5: longer than 8388608 bytes",
		"line 6: json: cannot unmarshal number into Go struct field TranscriptEvent.type of type string",
	}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Error(diff)
	}
}

// Writers of some platforms begin a file with a byte order mark.
func TestByteOrderMark(t *testing.T) {
	say := `{"type":"assistant.message","content":"here"}`
	got, report := read(t, transcript.Source{From: "stdout", Format: transcript.FormatWaza}, "\ufeff"+say, "\ufeff"+say)
	if len(got) != 1 || report.Events != 1 || report.Ignored != 1 {
		t.Errorf("%q, %+v", got, report)
	}
}

func TestEmitEndsTheReading(t *testing.T) {
	full := errors.New("full")
	for _, s := range []transcript.Source{{Format: transcript.FormatWaza}, jsonl(transcript.Rule{Type: transcript.Message, Content: "content"})} {
		count := 0
		_, err := s.Read(strings.NewReader(strings.Repeat(`{"type":"x","content":"y"}`+"\n", 3)), func(evidence.TranscriptEvent) error { count++; return full })
		if !errors.Is(err, full) || count != 1 {
			t.Errorf("%s: %v after %d", s.Format, err, count)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"a","input":{}}]}}`, "message.content", "type", "tool_use")
	f.Add(`{"a":[{"b":1}],"a":{"0":[]}}`, "a.0", "b", "1")
	f.Add("{\"a\":\"\\u0000\"}\n{\n[", "a", "a", "")
	f.Fuzz(func(t *testing.T, text, each, path, value string) {
		rule := transcript.Rule{Each: each, Where: map[string]any{path: value}, Type: transcript.ToolStart, ID: path, Name: path, Server: each, Arguments: each}
		end := transcript.Rule{When: map[string]any{path: value}, Type: transcript.ToolEnd, ID: path, Result: each, Error: path}
		say := transcript.Rule{Type: transcript.Message, Content: path}
		failed := transcript.Rule{Type: transcript.ToolEnd, ID: path, OK: map[string]any{path: value}}
		piece := transcript.Rule{Type: transcript.Message, Content: each, Joined: true}
		for _, s := range []transcript.Source{jsonl(rule, end, say, failed, piece), {Format: transcript.FormatWaza}} {
			if s.Problems() != nil {
				continue
			}
			_, err := s.Read(strings.NewReader(text), func(e evidence.TranscriptEvent) error {
				_, err := json.Marshal(e)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// Of a running total, only what is new is told. One that is smaller begins anew.
func TestRunningTotal(t *testing.T) {
	rule := transcript.Rule{Type: transcript.Usage, Input: []string{"in"}, Output: []string{"out"}, Total: true}
	source := transcript.Source{From: "stdout", Format: transcript.FormatJSONL, Events: []transcript.Rule{rule}}
	got, _ := read(t, source, `{"in":600,"out":60}`, `{"other":1}`, `{"in":1300,"out":100}`, `{"in":1300,"out":100}`, `{"in":"x"}`, `{"in":5,"out":1}`, `{"in":9,"out":1}`)
	want := []string{
		`{"type":"assistant.usage","usage":{"input":600,"output":60}}`,
		`{"type":"assistant.usage","usage":{"input":700,"output":40}}`,
		`{"type":"assistant.usage","usage":{"input":0,"output":0}}`,
		`{"type":"assistant.usage","usage":{"input":5,"output":1}}`,
		`{"type":"assistant.usage","usage":{"input":4,"output":0}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rule = transcript.Rule{Type: transcript.Message, Content: "a", Total: true}
	if bad := (transcript.Source{Format: transcript.FormatJSONL, Events: []transcript.Rule{rule}}).Problems(); len(bad) != 1 || bad[0].What != "message takes no running_total" {
		t.Errorf("%+v", bad)
	}
}

// Tokens are summed over the paths that a line has. A value that is not a count is ignored.
func TestUsage(t *testing.T) {
	source := transcript.Source{From: "stdout", Format: transcript.FormatJSONL, Events: []transcript.Rule{
		{Type: transcript.Usage, Input: []string{"in", "cache.read"}, Output: []string{"out"}},
	}}
	got, report := read(t, source,
		`{"in":100,"cache":{"read":20},"out":3}`, `{"in":1}`, `{"other":1}`,
		`{"in":"7","out":-1}`, `{"in":1.5,"out":true}`, `{"in":9223372036854775807,"cache":{"read":9},"out":1}`,
	)
	want := []string{
		`{"type":"assistant.usage","usage":{"input":120,"output":3}}`,
		`{"type":"assistant.usage","usage":{"input":1,"output":0}}`,
		`{"type":"assistant.usage","usage":{"input":9223372036854775807,"output":1}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if report.Events != 0 {
		t.Errorf("%+v: tokens tell nothing of what was done", report)
	}
	if bad := (transcript.Source{Format: transcript.FormatJSONL, Events: []transcript.Rule{{Type: transcript.Usage, Input: []string{"a..b"}}}}).Problems(); len(bad) != 2 {
		t.Errorf("%+v", bad)
	}
}
