package answer_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/mcp/answer"
)

// compiled returns an answer as a file has it.
func compiled(kind, written string) (*answer.Answer, error) {
	a := &answer.Answer{}
	if written == "decline" || written == "cancel" || written == "accept" {
		if err := a.SetShort(written); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal([]byte(written), a); err != nil {
		return nil, err
	}
	return a, a.Compile(kind)
}

func table(kind string, a *answer.Answer) answer.Table {
	switch kind {
	case input.KindElicitation:
		return answer.Table{"stock": {Elicitation: a}}
	case input.KindSampling:
		return answer.Table{"stock": {Sampling: a}}
	}
	return answer.Table{"stock": {Roots: a}}
}

func TestReply(t *testing.T) {
	const accepted = `{"action":"accept","content":{"n":3}}`
	for _, test := range []struct {
		name, kind, written, params string
		want                        input.Reply
	}{
		{"a result", "elicitation", `{"result":` + accepted + `}`, `{"message":"how many?"}`, input.Reply{Result: json.RawMessage(accepted)}},
		{"declined", "elicitation", "decline", "{}", input.Reply{Result: json.RawMessage(`{"action":"decline"}`)}},
		{"cancelled", "elicitation", "cancel", "{}", input.Reply{Result: json.RawMessage(`{"action":"cancel"}`)}},
		{"sampling declined", "sampling", "decline", "{}", input.Reply{Code: -1, Message: "the user rejected the request"}},
		{"roots declined", "roots", `{"action":"decline"}`, "", input.Reply{Code: -1, Message: "the user rejected the request"}},
		{"an error", "roots", `{"error":{"code":-32603,"message":"the disk is gone"}}`, "", input.Reply{Code: -32603, Message: "the disk is gone"}},
		{"a schema that fits", "roots", `{"result":{"roots":[]},"schema":{"type":"object"}}`, "", input.Reply{Result: json.RawMessage(`{"roots":[]}`)}},
		{
			"a schema that does not", "elicitation", `{"result":` + accepted + `,"schema":{"properties":{"message":{"pattern":"many"}},"required":["mode"]}}`, "{\"message\":\"how\\nmuch?\"}",
			input.Reply{
				Code: -32602, Message: "the params do not fit the schema that is expected: missing property 'mode'; /message: 'how\\nmuch?' does not match pattern 'many'",
				Unmet: `MCP server "stock" requested elicitation with params that do not fit answers.stock.elicitation.schema: missing property 'mode'; /message: 'how\nmuch?' does not match pattern 'many'`,
			},
		},
		{
			"params that are no JSON", "sampling", `{"action":"decline","schema":{}}`, "{",
			input.Reply{Code: -32602},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := compiled(test.kind, test.written)
			if err != nil {
				t.Fatal(err)
			}
			got := table(test.kind, a).Reply(input.Question{Server: "stock", Kind: test.kind, Params: json.RawMessage(test.params)})
			if test.want.Unmet == "" && test.want.Code == -32602 && got.Unmet != "" {
				got.Message, got.Unmet = "", ""
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	a, err := compiled("roots", "decline")
	if err != nil {
		t.Fatal(err)
	}
	all := table("roots", a)
	for _, q := range []input.Question{{Server: "stock", Kind: "sampling"}, {Server: "web", Kind: "roots"}, {Server: "stock", Kind: "tools"}} {
		if got := all.Reply(q); got.Code != -32601 || got.Result != nil {
			t.Errorf("%+v: %+v", q, got)
		}
	}
	if diff := cmp.Diff(map[string][]string{"stock": {"roots"}}, all.Kinds()); diff != "" {
		t.Error(diff)
	}
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct{ kind, written, want string }{
		{"elicitation", "accept", "must be decline, cancel, or a mapping with a result or an error"},
		{"elicitation", "{}", "needs exactly one of result, error and action"},
		{"elicitation", `{"schema":{}}`, "needs exactly one of"},
		{"elicitation", `{"action":"decline","result":{"action":"accept"}}`, "needs exactly one of"},
		{"elicitation", `{"action":"decline","result":{"action":"accept"},"error":{"code":1,"message":"no"}}`, "needs exactly one of"},
		{"sampling", "cancel", "cancel is an action of elicitation, not of sampling; use decline, or an error"},
		{"elicitation", `{"result":[]}`, "result must be a mapping"},
		{"elicitation", `{"result":{"content":{}}}`, "the result of elicitation needs the key action"},
		{"elicitation", `{"result":{"action":"yes"}}`, "result.action must be accept, decline or cancel"},
		{"sampling", `{"result":{"role":"assistant","content":{"type":"text","text":"x"}}}`, "the result of sampling needs the key model"},
		{"roots", `{"result":{"roots":{}}}`, "result.roots must be a list"},
		{"roots", `{"result":{"roots":[]},"schema":{"type":"objekt"}}`, "schema: "},
	} {
		if _, err := compiled(test.kind, test.written); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s: %v, want %s", test.kind, test.written, err, test.want)
		}
	}
}

// Whatever is asked has an answer, and how params do not fit is said in one line.
func FuzzReply(f *testing.F) {
	a, err := compiled("sampling", `{"action":"decline","schema":{"properties":{"messages":{"maxItems":1},"n":{"maximum":9}},"required":["messages"]}}`)
	if err != nil {
		f.Fatal(err)
	}
	for _, params := range []string{`{"messages":[]}`, `{"messages":[1,2],"n":1e999999}`, `{"messages":"a\nb"}`, `[`} {
		f.Add([]byte(`{"server":"stock","kind":"sampling","params":` + params + `}`))
	}
	f.Add([]byte(`{"kind":"roots"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := answer.ReadQuestion(bytes.NewReader(body))
		if err != nil {
			return
		}
		got := table("sampling", a).Reply(q)
		if got.Code == 0 || got.Message == "" || (got.Code == -32602) != (got.Unmet != "") || strings.ContainsAny(got.Unmet, "\r\n") {
			t.Errorf("%q: %+v", body, got)
		}
	})
}
