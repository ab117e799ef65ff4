package capture_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/model/dialect"
)

// tale is what happened in a trial, a step each second: what a model was asked and
// answered, and what was called.
type tale struct {
	now    time.Time
	models []evidence.ModelCall
	calls  []evidence.Call
	named  map[int]string
	gaps   []capture.Gap
}

func newTale() *tale { return &tale{now: epoch, named: map[int]string{}} }

func (t *tale) tick() time.Time {
	t.now = t.now.Add(time.Second)
	return t.now
}

// turn is a model call that gets results, by their ids, and asks for uses, each ID NAME
// ARGUMENTS. The response is streamed if the turn's number is even.
func (t *tale) turn(results []string, uses ...string) *evidence.ModelCall {
	var messages, calls []string
	for _, id := range results {
		messages = append(messages, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"done"}`, id))
	}
	for i, use := range uses {
		part := strings.SplitN(use, " ", 3)
		calls = append(calls, fmt.Sprintf(`{"index":%d,"id":%q,"function":{"name":%q,"arguments":%q}}`, i, part[0], part[1], part[2]))
	}
	said := fmt.Sprintf(`{"choices":[{"message":{"tool_calls":[%s]}}]}`, strings.Join(calls, ","))
	kind := "application/json"
	if len(t.models)%2 == 1 {
		kind, said = "text/event-stream", "data: "+strings.Replace(said, "message", "delta", 1)+"\n\ndata: [DONE]\n\n"
	}
	return t.answered(evidence.ModelCall{
		Dialect: dialect.Chat, Path: "/chat/completions", ContentType: kind,
		Request: []byte(`{"messages":[` + strings.Join(messages, ",") + `]}`), Response: []byte(said),
	})
}

func (t *tale) answered(call evidence.ModelCall) *evidence.ModelCall {
	call.Seq, call.Status, call.Outcome = len(t.models)+1, 200, evidence.ModelOK
	call.Start, call.FirstByte, call.End = t.tick(), t.tick(), t.tick()
	t.models = append(t.models, call)
	return &t.models[len(t.models)-1]
}

// call is a call of server s, on a conversation.
func (t *tale) call(conn, tool, arguments string) {
	call := evidence.Call{Seq: len(t.calls) + 1, Server: "s", Conn: conn, Tool: tool, Start: t.tick(), End: t.tick()}
	if arguments != "" {
		call.Arguments = json.RawMessage(arguments)
	}
	t.calls = append(t.calls, call)
}

// namedCall names a use, as Claude Code does.
func (t *tale) namedCall(id, conn, tool, arguments string) {
	t.call(conn, tool, arguments)
	t.named[len(t.calls)] = id
}

func (t *tale) record() iter.Seq2[evidence.ModelCall, error] {
	return func(yield func(evidence.ModelCall, error) bool) {
		for _, call := range slices.Backward(t.models) { // the order of lines does not matter
			if !yield(call, nil) {
				return
			}
		}
	}
}

// origins ties the calls, and returns TURN/USE for each, or its origin if no model asked for it.
func (t *tale) origins(models iter.Seq2[evidence.ModelCall, error]) []string {
	tools := map[string][]string{"s": {"get", "put"}}
	capture.Tie(capture.Result{Calls: t.calls, Named: t.named, Gaps: t.gaps}, tools, models)
	var reported []string
	for _, call := range t.calls {
		text := string(call.Origin)
		if call.Origin == evidence.OriginModel {
			text = fmt.Sprintf("%d/%s", call.Turn, call.ToolUse)
		}
		reported = append(reported, text)
	}
	return reported
}

func TestTie(t *testing.T) {
	for _, c := range []struct {
		name  string
		happy func(*tale)
		want  []string
	}{
		{"one after the other", func(t *tale) {
			t.turn(nil, `a mcp__s__get {"n":1}`)
			t.call("c", "get", `{"n":1.0}`)
			t.turn([]string{"a"}, `b mcp__s__get {"n":1}`)
			t.call("c", "get", `{"n":1}`)
			t.turn([]string{"a", "b"})
		}, []string{"1/a", "2/b"}},
		{"several at once, in another order, one of them twice", func(t *tale) {
			t.turn(nil, `a s-get {}`, `b s-put {"n":2}`, `c s-get {}`)
			t.call("c", "put", `{"n":2}`)
			t.call("c", "get", "")
			t.call("c", "get", "{}")
			t.turn([]string{"a", "b", "c"})
		}, []string{"1/b", "1/a", "1/c"}},
		{"ids that come again", func(t *tale) {
			t.turn(nil, `call_1 s_get {}`)
			t.call("b", "get", "{}")
			t.turn([]string{"call_1"}, `call_1 s_get {}`)
			t.call("b", "get", "{}")
			t.turn([]string{"call_1", "call_1"}, `call_1 s_get {}`)
			t.call("c", "get", "{}")
			t.turn([]string{"call_1", "call_1", "call_1"})
			t.call("curl", "get", "{}")
		}, []string{"1/call_1", "2/call_1", "3/call_1", "out_of_band"}},
		{"another conversation between", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.turn(nil) // a title for the session
			t.call("c", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"1/a"}},
		{"nobody asked", func(t *tale) {
			t.call("c", "get", "{}")
			t.turn(nil)
			t.call("c", "get", "{}")
		}, []string{"out_of_band", "out_of_band"}},
		{"the shell makes the call again, when the model was told", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.call("c", "get", "{}")
			t.turn([]string{"a"}, `b bash {"command":"curl http://s/mcp"}`)
			t.call("curl", "get", "{}")
			t.turn([]string{"a", "b"})
		}, []string{"1/a", "out_of_band"}},
		{"the shell makes the call again, on its own conversation, beside it", func(t *tale) {
			t.turn(nil, `a s_put {}`)
			t.call("c", "put", "{}")
			t.turn([]string{"a"}, `b s_get {}`, `x bash {"command":"curl http://s/mcp"}`)
			t.call("curl", "get", "{}")
			t.call("c", "get", "{}")
			t.turn([]string{"a", "b", "x"})
		}, []string{"1/a", "out_of_band", "2/b"}},
		{"the same, when the agent was first", func(t *tale) {
			t.turn(nil, `a s_put {}`)
			t.call("c", "put", "{}")
			t.turn([]string{"a"}, `b s_get {}`, `x bash {"command":"curl http://s/mcp"}`)
			t.call("c", "get", "{}")
			t.call("curl", "get", "{}")
			t.turn([]string{"a", "b", "x"})
		}, []string{"1/a", "2/b", "out_of_band"}},
		{"the same, where nothing tells who is who", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.call("c", "get", "{}")
			t.call("curl", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"unknown", "unknown"}},
		{"the same, and the client names its use", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.call("curl", "get", "{}")
			t.namedCall("a", "c", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"out_of_band", "1/a"}},
		{"two name one use", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.namedCall("a", "c", "get", "{}")
			t.namedCall("a", "curl", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"unknown", "unknown"}},
		{"a use named that there is not", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.call("c", "get", "{}")
			t.namedCall("b", "curl", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"1/a", "out_of_band"}},
		{"a use named by a call of another tool", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.namedCall("a", "curl", "put", "{}")
			t.call("c", "get", "{}")
			t.turn([]string{"a"})
		}, []string{"out_of_band", "1/a"}},
		{"with other arguments than the model's, which the agent may have changed", func(t *tale) {
			t.turn(nil, `a s_get {"n":1}`)
			t.call("c", "get", `{"n":2}`)
			t.turn([]string{"a"})
			t.call("c", "get", `{"n":2}`)
		}, []string{"unknown", "out_of_band"}},
		{"before the model asked", func(t *tale) {
			t.call("c", "get", "{}")
			t.turn(nil, `a s_get {}`)
			t.call("c", "get", "{}")
		}, []string{"out_of_band", "1/a"}},
		{"a use that was given up", func(t *tale) {
			t.turn(nil, `a s_get {}`)
			t.turn(nil, `b s_put {}`)
			t.call("c", "put", "{}")
			t.turn([]string{"b"})
			t.call("c", "get", "{}")
		}, []string{"2/b", "unknown"}},
		{"a bare name", func(t *tale) {
			t.turn(nil, `a get {}`)
			t.call("c", "get", "{}")
		}, []string{"1/a"}},
		{"a frame that could not be read, which may be the model's call", func(t *tale) {
			t.gaps = []capture.Gap{{Server: "s", Frame: 1}}
			t.turn(nil, `a s_get {}`, `b s_put {}`)
			t.call("c", "get", "{}")
			t.namedCall("b", "c", "put", "{}")
			t.turn([]string{"a", "b"})
			t.call("c", "get", "{}")
		}, []string{"unknown", "1/b", "out_of_band"}},
		{"a frame of another server's", func(t *tale) {
			t.gaps = []capture.Gap{{Server: "other", Frame: 1}}
			t.turn(nil, `a s_get {}`)
			t.call("c", "get", "{}")
		}, []string{"1/a"}},
		{"an answer of which not all was kept", func(t *tale) {
			t.call("c", "get", "{}")
			t.turn(nil, `a s_put {}`).Truncated = 1
			t.call("c", "put", "{}")
			t.call("c", "get", "{}")
		}, []string{"out_of_band", "1/a", "unknown"}},
		{"an answer that cannot be read", func(t *tale) {
			t.turn(nil).Response = []byte("?")
			t.call("c", "get", "{}")
		}, []string{"unknown"}},
		{"an answer that the agent did not get either", func(t *tale) {
			cut := t.turn(nil)
			cut.Response, cut.Outcome = []byte(`{"choices":[{"mess`), evidence.ModelTransport
			t.call("c", "get", "{}")
		}, []string{"out_of_band"}},
		{"an answer that a limit cut off", func(t *tale) {
			t.turn(nil, `a s_put {}`).Outcome = evidence.ModelBudget
			t.call("c", "put", "{}")
		}, []string{"1/a"}},
		{"a model call that is not on record", func(t *tale) {
			t.turn(nil).Seq = 2
			t.call("c", "get", "{}")
		}, []string{"unknown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tale := newTale()
			c.happy(tale)
			if diff := cmp.Diff(c.want, tale.origins(tale.record())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Google's models give uses no ids: results are matched by the tool's name.
func TestTieWithoutIDs(t *testing.T) {
	tale := newTale()
	turn := func(results int, uses int) {
		shown := strings.TrimSuffix(strings.Repeat(`{"functionResponse":{"name":"get","response":{}}},`, results), ",")
		asks := strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"get","args":{}}},`, uses), ",")
		tale.answered(evidence.ModelCall{
			Dialect: dialect.Generate, Path: "/v1beta/models/m:generateContent",
			Request:  []byte(`{"contents":[{"role":"user","parts":[` + shown + `]}]}`),
			Response: []byte(`{"candidates":[{"content":{"parts":[` + asks + `]}}]}`),
		})
	}
	turn(0, 2)
	tale.call("c", "get", "{}")
	tale.call("c", "get", "{}")
	turn(2, 1)
	tale.call("c", "get", "{}")
	turn(3, 0)
	tale.call("curl", "get", "{}")
	if diff := cmp.Diff([]string{"1/", "1/", "2/", "out_of_band"}, tale.origins(tale.record())); diff != "" {
		t.Error(diff)
	}
}

func TestTieWithoutARecord(t *testing.T) {
	tale := newTale()
	tale.turn(nil, `a s_get {}`)
	tale.call("c", "get", "{}")
	tale.call("c", "put", "{}")
	if diff := cmp.Diff([]string{"unknown", "unknown"}, tale.origins(nil)); diff != "" {
		t.Errorf("no gateway in the way: %s", diff)
	}
	torn := func(yield func(evidence.ModelCall, error) bool) {
		if yield(tale.models[0], nil) {
			yield(evidence.ModelCall{}, errors.New("torn"))
		}
	}
	if diff := cmp.Diff([]string{"1/a", "unknown"}, tale.origins(torn)); diff != "" {
		t.Errorf("a record that ends torn: %s", diff)
	}
}

// Claude Code and executor llm put the id of the use into their requests.
func TestNamedUse(t *testing.T) {
	named := calls(t,
		up(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","_meta":{"claudecode/toolUseId":"toolu_1","progressToken":3}}}`),
		up(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get","_meta":{"claudecode/toolUseId":7}}}`),
		up(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get","_meta":{"waza/toolUseId":"call_1"}}}`),
		up(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"get","_meta":[]}}`),
	).Named
	if diff := cmp.Diff(map[int]string{1: "toolu_1", 3: "call_1"}, named); diff != "" {
		t.Error(diff)
	}
}

// FuzzTie checks that no use is tied to two calls, whatever models send.
func FuzzTie(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"tool","tool_call_id":"a"}]}`), []byte(`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"s_get","arguments":"{}"}}]}}]}`))
	f.Fuzz(func(t *testing.T, request, response []byte) {
		tale := newTale()
		for range 3 {
			tale.answered(evidence.ModelCall{Dialect: dialect.Chat, Request: request, Response: response})
			tale.call("c", "get", "{}")
			tale.namedCall("a", "d", "get", "{}")
		}
		asked := map[string]int{}
		for _, model := range tale.models {
			answer, _ := dialect.ReadResponse(model.Dialect, model.Status, "", model.Response)
			for _, use := range answer.Uses {
				asked[fmt.Sprintf("%d/%s", model.Seq, use.ID)]++
			}
		}
		for _, origin := range tale.origins(tale.record()) {
			if asked[origin]--; strings.Contains(origin, "/") && asked[origin] < 0 {
				t.Errorf("%s is carried out more often than it was asked for", origin)
			}
		}
	})
}
