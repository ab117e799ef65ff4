package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/answer"
)

// askingTool is a tool of which each call asks for the three kinds of input, in either era.
func askingTool(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	given := r.Params.InputResponses
	if len(given) == 0 {
		return server.NewInputRequestBuilder("state-1").
			Elicit("e", mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "How many?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}}).
			Sample("s", mcp.CreateMessageParams{MaxTokens: 5, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("say")}}}).
			Roots("r").ToolResult(), nil
	}
	elicited, sampled, roots := server.ElicitationResponse(given, "e"), server.SamplingResponse(given, "s"), server.RootsResponse(given, "r")
	if elicited == nil || sampled == nil || roots == nil || r.Params.RequestState != "state-1" {
		return mcp.NewToolResultError(fmt.Sprintf("%+v", given)), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s %v, %s, %s", elicited.Action, elicited.Content, sampled.Model, roots.Roots[0].URI)), nil
}

// answering is what a task says under answers, as the runner gives it to the agent.
func answering(t *testing.T, written string) *input.Answers {
	t.Helper()
	doc, err := strictyaml.Parse("answers", []byte(written))
	if err != nil {
		t.Fatal(err)
	}
	table := answer.Table{}
	if doc.Decode(&table); doc.Err() != nil {
		t.Fatal(doc.Err())
	}
	for _, of := range table {
		for _, kind := range input.Kinds() {
			if a := of.Of(kind); a != nil {
				if err := a.Compile(kind); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	runner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q input.Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(table.Reply(q)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(runner.Close)
	return &input.Answers{URL: runner.URL + input.AnswersPath, Kinds: table.Kinds()}
}

const (
	allAnswers = `
stock: &all
  elicitation: {result: {action: accept, content: {n: 3}}, schema: {properties: {message: {const: "How many?"}}}}
  sampling: {result: {role: assistant, model: m-1, content: {type: text, text: hi}}}
  roots: {result: {roots: [{uri: "file:///workspace"}]}, schema: {type: object}}
old: *all
`
	capabilities = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`
)

// What a server asks within a call is answered in both eras, and the client declares that it answers.
func TestAnswers(t *testing.T) {
	for _, test := range []struct{ name, declared string }{
		{"stock", `"io.modelcontextprotocol/clientCapabilities":` + capabilities},
		{"old", `"capabilities":` + capabilities},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			d.answers = answering(t, allAnswers)
			o := d.mustRun(t, `[{call: {server: `+test.name+`, tool: ask}, as: r}, {say: "{{ r.text }}"}]`)
			if want := "accept map[n:3], m-1, file:///workspace"; o.output != want {
				t.Errorf("said %q, want %q", o.output, want)
			}
			server := map[string]*recorded{"stock": d.stock, "old": d.old}[test.name]
			if len(server.sent(test.declared)) == 0 {
				t.Errorf("%s was not sent in any of %q", test.declared, server.sent(""))
			}
		})
	}
}

// Kinds without an answer are not declared, and what asks for them ends as it does without answers.
// So does a round of 2026-07-28 with an error for an answer, since a retry has no place for it.
func TestNoAnswers(t *testing.T) {
	const noInput = "protocol_error the server requires input before it answers, and nobody gives any"
	declining := strings.Replace(allAnswers, `roots: {result: {roots: [{uri: "file:///workspace"}]}, schema: {type: object}}`, "roots: decline", 1)
	for _, test := range []struct{ name, answers, server, want, declared string }{
		{"none", "{}", "stock", noInput, ""},
		{"none, older era", "{}", "old", "protocol_error", ""},
		{"of another server", "{old: {sampling: decline}}", "stock", noInput, ""},
		{"of one kind", "{stock: {elicitation: cancel}}", "stock", noInput, "elicitation"},
		{"an error", declining, "stock", noInput, "elicitation sampling roots"},
		{"an error, older era", declining, "old", "protocol_error", "elicitation sampling roots"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			d.answers = answering(t, test.answers)
			o := d.mustRun(t, `[{call: {server: `+test.server+`, tool: ask, expect: any}, as: r}, {say: "{{ r.outcome }} {{ r.text }}"}]`)
			if !strings.HasPrefix(o.output, test.want) {
				t.Errorf("said %q, want %q", o.output, test.want)
			}
			server := map[string]*recorded{"stock": d.stock, "old": d.old}[test.server]
			for _, kind := range input.Kinds() {
				declared := len(server.sent(`"`+kind+`":{`)) > 0
				if declared != strings.Contains(test.declared, kind) {
					t.Errorf("%s is declared: %v", kind, declared)
				}
			}
		})
	}
}

// A request that violates its schema ends the script, whatever the outcome of the call.
func TestUnmetSchema(t *testing.T) {
	for _, server := range []string{"stock", "old"} {
		for _, step := range []string{
			`{call: {server: ` + server + `, tool: ask, expect: any}}`,
			`{loop: {times: 1, steps: [{call: {server: ` + server + `, tool: ask}}]}}`,
		} {
			d := newDesk(t)
			d.answers = answering(t, strings.ReplaceAll(allAnswers, "How many?", "Why?"))
			o := d.run(t.Context(), t, `[`+step+`, {say: "not reached"}]`)
			want := `call: unexpected outcome: MCP server "` + server + `" requested elicitation with params that do not fit answers.` + server + `.elicitation.schema: /message: value must be 'Why?'`
			if !errors.Is(o.err, script.ErrAnswer) || !strings.HasSuffix(o.err.Error(), want) || o.output != "" {
				t.Errorf("%s: %v, said %q, want %s", step, o.err, o.output, want)
			}
		}
	}
}
