package runtest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// Flood is the size in bytes of the longest result in [Trial.Attack].
const Flood = 5 << 20

// Attack puts each of [Attacks] everywhere in the trial where untrusted text occurs: the
// server's names, descriptions, results and errors, the agent's arguments, output,
// transcript and files, and the verdicts, events and logs about them. One result is very
// large.
func (t *Trial) Attack() {
	texts := Attacks()
	all := strings.Join(texts, "\n")
	t.serveAttacks(texts)
	for i, text := range texts {
		t.attackCall(i, text)
	}
	t.Call("hostile", "flood", nil, strings.Repeat(all+"\n", Flood/len(all)+1))
	t.Info.TaskName, t.Info.Prompt, t.Info.FinalOutput, t.Info.Message = texts[1], all, all, all
	t.Info.Gaps = append([]string{}, texts...)
	for i, text := range texts {
		t.Grade(text, "text", string(t.json(map[string]any{"contains": []string{fmt.Sprintf("not there %d %s", i, text)}})))
		t.Event(evidence.Event{Kind: text, Where: text, Message: text, Data: map[string]any{text: text, "raw": text, "name": text}})
		t.Event(evidence.Event{Kind: "egress", Where: "hostile", Message: text, Data: map[string]any{"name": text, "port": 443, "by": text, "why": text}})
		t.Event(evidence.Event{Kind: "dns", Where: "agent", Message: text, Data: map[string]any{"name": text}})
		t.tellAttack(i, text)
		t.ModelCall(attackTurn(i+1, text, t))
	}
	t.Write(evidence.StdoutFile, all)
	t.Write(evidence.StderrFile, all)
	t.Write(evidence.ServersDir+"/hostile.stderr", all)
	t.tree(evidence.BeforeFile, map[string]string{"notes.txt": "before\n"})
	files := map[string]string{"notes.txt": all}
	for _, text := range texts {
		files[strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "/", "∕")] = text
	}
	t.tree(evidence.WorkspaceFile, files)
}

func (t *Trial) serveAttacks(texts []string) {
	tools := []Tool{{Name: "flood"}, {Name: "say"}}
	for _, text := range texts {
		tools = append(tools, Tool{Name: text, Description: text, InputSchema: t.json(map[string]any{
			"type": "object", "title": text, "properties": map[string]any{text: map[string]any{"type": "string", "description": text, "enum": []string{text}}},
		})})
	}
	t.Serve("hostile", tools...)
}

// attackCall calls a tool with a hostile name. The kind of response depends on i.
func (t *Trial) attackCall(i int, text string) {
	arguments := map[string]any{text: text, "nested": []any{map[string]any{text: []string{text}}}}
	params := map[string]any{"name": text, "arguments": arguments}
	switch i % 4 {
	case 0:
		t.Call("hostile", text, arguments, text)
	case 1:
		t.Fail("hostile", text, arguments, text)
	case 2:
		t.Ask("hostile", "tools/call", params, "error", map[string]any{"code": -32000, "message": text, "data": map[string]any{text: text}})
	case 3:
		t.Ask("hostile", "tools/call", params, "result", map[string]any{"structuredContent": map[string]any{text: text}, "content": []any{
			map[string]any{"type": text, "text": text},
			map[string]any{"type": "image", "data": text, "mimeType": text},
			map[string]any{"type": "resource_link", "uri": "javascript:window." + Pwned + "=1", "name": text, "description": text, "mimeType": text},
			map[string]any{"type": "resource", "resource": map[string]any{"uri": text, "text": text, "mimeType": "text/html"}},
		}})
	}
}

func (t *Trial) tellAttack(i int, text string) {
	id, yes := fmt.Sprintf("%d%s", i, text), true
	t.Says(
		evidence.TranscriptEvent{Type: "assistant.message", Content: text, Message: text},
		evidence.TranscriptEvent{Type: "tool.execution_start", ToolCallID: id, ToolName: text, Arguments: t.json(map[string]any{text: text})},
		evidence.TranscriptEvent{Type: "tool.execution_complete", ToolCallID: id, ToolName: text, Success: &yes, ToolResult: t.json(text)},
	)
}

// attackTurn returns a model call whose response has text as its content and as the name of
// a tool.
func attackTurn(seq int, text string, t *Trial) evidence.ModelCall {
	request := map[string]any{"model": text, "messages": []any{map[string]any{"role": "user", "content": text}}}
	answer := map[string]any{"id": text, "model": text, "choices": []any{map[string]any{"finish_reason": text, "message": map[string]any{
		"role": "assistant", "content": text, "tool_calls": []any{map[string]any{"id": text, "type": "function", "function": map[string]any{"name": text, "arguments": string(t.json(map[string]any{text: text}))}}},
	}}}}
	return evidence.ModelCall{
		Seq: seq, Provider: text, Method: "POST", Path: "/chat/completions", Dialect: dialect.Chat, Model: text, Status: 200, ContentType: "application/json",
		Request: t.json(request), Response: t.json(answer), Start: t.Now(), FirstByte: t.Now(), End: t.Now(), Outcome: evidence.ModelOK, Error: text,
	}
}

func (t *Trial) json(value any) json.RawMessage {
	raw, err := evidence.Marshal(value)
	if err != nil {
		t.t.Fatal(err)
	}
	return raw
}

func (t *Trial) tree(name string, files map[string]string) {
	var content bytes.Buffer
	out := tar.NewWriter(&content)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := out.WriteHeader(&tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[path]))}); err != nil {
			t.t.Fatal(err)
		}
		if _, err := out.Write([]byte(files[path])); err != nil {
			t.t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.t.Fatal(err)
	}
	file, err := t.Tree(name)
	if err == nil {
		_, err = file.Write(content.Bytes())
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.t.Fatal(err)
	}
}
