package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

func TestCallValues(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `
- call: {server: stock, tool: list}
  as: list
- call: {server: stock, tool: echo, arguments: {id: "{{ list.json.items[0].id }}", price: "{{ list.structured.items[0].price }}", shelf: "{{ context.shelf }}{{ context.serial }}"}}
  as: echo
- say: "{{ echo.text }} {{ echo.is_error }} {{ echo.outcome }} {{ echo.result.content[0].type }} {{ len(list.json.items) + 1 }}"
`)
	want := `{"id":9007199254740993,"price":1.0,"shelf":"A9007199254740993"} false ok text 3`
	if diff := cmp.Diff(want, o.output); diff != "" {
		t.Error(diff)
	}
}

func TestLiteralArgumentsKeepTheirDigitsOnTheWire(t *testing.T) {
	for _, name := range []string{"stock", "old"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.mustRun(t, `[{call: {server: `+name+`, tool: echo, arguments: {id: 9007199254740993, deep: [{n: 18446744073709551615}]}}}]`)
			server := map[string]*recorded{"stock": d.stock, "old": d.old}[name]
			calls := server.sent(`"tools/call"`)
			if len(calls) != 1 || !strings.Contains(calls[0], `"arguments":{"deep":[{"n":18446744073709551615}],"id":9007199254740993}`) {
				t.Errorf("sent %q", calls)
			}
		})
	}
}

func TestComputedNumbers(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `
- call: {server: stock, tool: list}
  as: list
- call: {server: stock, tool: echo, arguments: {next: "{{ list.json.items[0].id + 1 }}", cheap: "{{ filter(list.json.items, .price < 2) }}", none: "{{ list.json?.nothing ?? 0 }}"}}
  as: echo
- say: "{{ echo.text }}"
`)
	want := `{"cheap":[{"id":9007199254740993,"price":1}],"next":9007199254740994,"none":0}`
	if diff := cmp.Diff(want, o.output); diff != "" {
		t.Error(diff)
	}
}

func TestExpectedOutcomes(t *testing.T) {
	for _, test := range []struct{ name, call, said string }{
		{"tool error", `{server: stock, tool: refuse, expect: tool_error}`, "tool_error true no such item"},
		{"protocol error", `{server: stock, tool: nothing, expect: protocol_error}`, "protocol_error true tool 'nothing' not found: tool not found"},
		{"protocol error, older era", `{server: old, tool: nothing, expect: protocol_error}`, "protocol_error true tool 'nothing' not found: tool not found"},
		{"timeout", `{server: stock, tool: hang, expect: timeout, timeout: 50ms}`, "timeout true no answer within 50ms"},
		{"any, an error", `{server: stock, tool: refuse, expect: any}`, "tool_error true no such item"},
		{"any, none", `{server: stock, tool: echo, expect: any}`, "ok false {}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			o := d.mustRun(t, `[{call: `+test.call+`, as: r}, {say: "{{ r.outcome }} {{ r.is_error }} {{ r.text }}"}]`)
			if o.output != test.said {
				t.Errorf("said %q, want %q", o.output, test.said)
			}
		})
	}
}

func TestBrokenServerIsATransportError(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `[{call: {server: broken, tool: echo, expect: transport_error}, as: r}, {say: "{{ r.outcome }}"}]`)
	if o.output != "transport_error" {
		t.Errorf("said %q", o.output)
	}
}

func TestUnexpectedOutcomes(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"tool error", `[{say: a}, {call: {server: stock, tool: refuse}}]`,
			"script[1].call: unexpected outcome: expected ok of refuse on stock, got tool_error (if that is right, write expect: tool_error): no such item"},
		{"success", `[{loop: {times: 1, steps: [{call: {server: stock, tool: echo, expect: tool_error}}]}}]`,
			"script[0].loop.steps[0].call: unexpected outcome: expected tool_error of echo on stock, got ok: {}"},
		{"timeout", `[{call: {server: stock, tool: hang, timeout: 50ms}}]`,
			"script[0].call: unexpected outcome: expected ok of hang on stock, got timeout: no answer within 50ms"},
		{"exit code", `[{run: {command: [sh, -c, "echo bad >&2; exit 3"]}}]`,
			"script[0].run: unexpected outcome: expected exit code 0 of sh, got 3: bad"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			o := d.run(t.Context(), t, test.script)
			if !errors.Is(o.err, script.ErrUnexpected) || o.err.Error() != test.want {
				t.Errorf("error %v\nwant  %s", o.err, test.want)
			}
		})
	}
}

func TestUnknownServer(t *testing.T) {
	d := newDesk(t)
	o := d.run(t.Context(), t, `[{call: {server: stok, tool: echo, expect: any}}]`)
	want := `script[0].call: mcp.json has no server "stok" (did you mean "stock"?); it has: "broken", "old", "stock"`
	if !errors.Is(o.err, script.ErrConfig) || o.err.Error() != want {
		t.Errorf("error %v\nwant  %s", o.err, want)
	}
	if len(o.events) != 1 {
		t.Errorf("a call that was not made is in the transcript: %v", o.events)
	}
}

func TestBadConfig(t *testing.T) {
	for name, content := range map[string]string{
		"not JSON":  `{`,
		"stdio":     `{"mcpServers":{"stock":{"type":"stdio"}}}`,
		"not there": "",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.config = filepath.Join(t.TempDir(), "mcp.json")
			if content != "" {
				if err := os.WriteFile(d.config, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if o := d.run(t.Context(), t, `[{tools: {server: stock}}]`); !errors.Is(o.err, script.ErrConfig) {
				t.Error(o.err)
			}
			d.mustRun(t, `[{say: no server needed}]`)
		})
	}
}

func TestOneSessionPerServer(t *testing.T) {
	d := newDesk(t)
	d.mustRun(t, `
- loop: {times: 3, steps: [{call: {server: old, tool: echo}}, {call: {server: stock, tool: echo}}]}
`)
	if n := len(d.old.sent(`"initialize"`)); n != 1 {
		t.Errorf("%d sessions opened with old", n)
	}
	if n := len(d.stock.sent(`"server/discover"`)); n != 1 {
		t.Errorf("%d discoveries of stock", n)
	}
}

// TestEarlyServers checks that a server that is known not to answer server/discover is not
// asked that: the client would wait five seconds for it.
func TestEarlyServers(t *testing.T) {
	d := newDesk(t)
	d.early = []string{"stock"}
	d.mustRun(t, `[{call: {server: stock, tool: echo}}]`)
	if asked, begun := len(d.stock.sent(`"server/discover"`)), len(d.stock.sent(`"initialize"`)); asked != 0 || begun != 1 {
		t.Errorf("%d discoveries and %d sessions", asked, begun)
	}
}

func TestTools(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `
- tools: {server: stock}
  as: tools
- say: "{{ map(tools, .name) }} {{ tools[1].description }}"
`)
	if want := `["ask","echo","hang","list","refuse"] gives back its arguments`; o.output != want {
		t.Errorf("said %q, want %q", o.output, want)
	}
	o = d.run(t.Context(), t, `[{tools: {server: broken}}]`)
	if !errors.Is(o.err, script.ErrUnexpected) {
		t.Error(o.err)
	}
}

func TestEndOfContextEndsACall(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o := d.run(ctx, t, `[{call: {server: stock, tool: hang, expect: any}}, {say: never}]`)
	if !errors.Is(o.err, context.DeadlineExceeded) || o.output != "" {
		t.Errorf("error %v, output %q", o.err, o.output)
	}
}

func TestTranscript(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `
- call: {server: stock, tool: refuse, expect: tool_error}
- claim: {server: stock, tool: delete, arguments: {id: 9007199254740993}, result: {content: []}}
- claim: {tool: skill, arguments: {skill: x}}
- write: {path: a.txt, content: "<hi>"}
- say: done
`)
	yes, no := true, false
	want := []evidence.TranscriptEvent{
		{Type: "user.message", Content: "count the bolts"},
		{Type: "tool.execution_start", ToolCallID: "call-1", ToolName: "mcp__stock__refuse", Arguments: json.RawMessage(`{}`)},
		{Type: "tool.execution_complete", ToolCallID: "call-1", ToolName: "mcp__stock__refuse", Success: &no},
		{Type: "tool.execution_start", ToolCallID: "call-2", ToolName: "mcp__stock__delete", Arguments: json.RawMessage(`{"id":9007199254740993}`)},
		{Type: "tool.execution_complete", ToolCallID: "call-2", ToolName: "mcp__stock__delete", Success: &yes, ToolResult: json.RawMessage(`{"content":[]}`)},
		{Type: "tool.execution_start", ToolCallID: "call-3", ToolName: "skill", Arguments: json.RawMessage(`{"skill":"x"}`)},
		{Type: "tool.execution_complete", ToolCallID: "call-3", ToolName: "skill", Success: &yes, ToolResult: json.RawMessage(`null`)},
		{Type: "tool.execution_start", ToolCallID: "call-4", ToolName: "write_file", Arguments: json.RawMessage(`{"file_text":"<hi>","path":"a.txt"}`)},
		{Type: "tool.execution_complete", ToolCallID: "call-4", ToolName: "write_file", Success: &yes, ToolResult: json.RawMessage(`{"bytes":4}`)},
		{Type: "assistant.message", Content: "done"},
	}
	var refusal struct{ IsError bool }
	if err := json.Unmarshal(o.events[2].ToolResult, &refusal); err != nil || !refusal.IsError {
		t.Errorf("the server's result is not in the transcript: %s", o.events[2].ToolResult)
	}
	o.events[2].ToolResult = nil
	if diff := cmp.Diff(want, o.events); diff != "" {
		t.Error(diff)
	}
	if calls := d.stock.sent(`"delete"`); len(calls) != 0 {
		t.Errorf("a claimed call was made: %q", calls)
	}
}

func TestUntoldCall(t *testing.T) {
	d := newDesk(t)
	o := d.mustRun(t, `
- call: {server: stock, tool: refuse, expect: tool_error, tell: false}
  as: refusal
- say: "{{ refusal.outcome }}"
`)
	want := []evidence.TranscriptEvent{
		{Type: "user.message", Content: "count the bolts"},
		{Type: "assistant.message", Content: "tool_error"},
	}
	if diff := cmp.Diff(want, o.events); diff != "" {
		t.Error(diff)
	}
	if calls := d.stock.sent(`"refuse"`); len(calls) != 1 {
		t.Errorf("calls %q", calls)
	}
}

// However an answer is wrong, it ends its call, in a body as in a stream.
func TestHostileAnswers(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"no object":               {`{"jsonrpc":"2.0","id":@ID@,"result":[1]}`, "protocol_error"},
		"no content":              {`{"jsonrpc":"2.0","id":@ID@,"result":{}}`, "ok"},
		"structured content only": {`{"jsonrpc":"2.0","id":@ID@,"result":{"structuredContent":{"x":42}}}`, "ok"},
		"no result":               {`{"jsonrpc":"2.0","id":@ID@}`, "protocol_error"},
		"a null error":            {`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]},"error":null}`, "ok"},
		"a null result":           {`{"jsonrpc":"2.0","id":@ID@,"result":null,"error":{"code":-1,"message":"no"}}`, "protocol_error"},
		"a null method":           {`{"jsonrpc":"2.0","id":@ID@,"method":null,"result":{"content":[]}}`, "ok"},
		"both":                    {`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]},"error":{"code":-1,"message":"no"}}`, "protocol_error"},
		"a code that is a text":   {`{"jsonrpc":"2.0","id":@ID@,"error":{"code":"E42","message":"no"}}`, "protocol_error"},
		"an error that is a text": {`{"jsonrpc":"2.0","id":@ID@,"error":"no"}`, "protocol_error"},
		"NaN":                     {`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":{"x":NaN}}}`, "protocol_error"},
		"no version":              {`{"id":@ID@,"result":{"content":[],"isError":true}}`, "tool_error"},
		"an id that is a text":    {`{"jsonrpc":"2.0","id":"@ID@","result":{"content":[]}}`, "protocol_error"},
		"wants more":              {`{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`, "protocol_error"},
		"no JSON":                 {`<html>`, "transport_error"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				d := newDesk(t)
				d.broken.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					raw, _ := io.ReadAll(r.Body)
					asked, _ := jsonrpc.ReadOne(raw)
					body := `{"jsonrpc":"2.0","id":@ID@,"result":{"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete"}}`
					if asked.Method == "tools/call" {
						body = test.body
					}
					body = strings.ReplaceAll(body, "@ID@", string(asked.ID.Raw))
					w.Header().Set("Content-Type", "application/json")
					if stream {
						w.Header().Set("Content-Type", "text/event-stream")
						body = "data: " + body + "\n\n"
					}
					_, _ = io.WriteString(w, body)
				})
				o := d.mustRun(t, `[{call: {server: broken, tool: x, expect: any}, as: r}, {say: "{{ r.outcome }}"}]`)
				if o.output != test.want {
					t.Errorf("said %q", o.output)
				}
			})
		}
	}
}
