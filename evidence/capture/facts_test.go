package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

func TestSameAs(t *testing.T) {
	var frames []evidence.Frame
	add := func(server, tool, arguments string) {
		f := up(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":%q%s}}`, len(frames), tool, arguments))
		f.Server = server
		frames = append(frames, f)
	}
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ server, tool, arguments string }{
		{"s", "get", `,"arguments":{"a":1,"b":[1,2]}`},
		{"s", "get", `,"arguments":{ "b":[1.0,2], "a":10e-1 }`},
		{"s", "get", `,"arguments":{"a":1,"b":[2,1]}`},
		{"s", "get", `,"arguments":{"a":"1","b":[1,2]}`},
		{"t", "get", `,"arguments":{"a":1,"b":[1,2]}`},
		{"s", "put", `,"arguments":{"a":1,"b":[1,2]}`},
		{"s", "ping", ``},
		{"s", "ping", `,"arguments":{}`},
		{"s", "get", `,"arguments":{"a":1,"b":[1,2]}`},
		{"s", "get", `,"arguments":{"n":9007199254740993}`},
		{"s", "get", `,"arguments":{"n":9007199254740992}`},
		{"s", "put", `,"arguments":{"n":"` + large + `"}`},
		{"s", "put", `,"arguments":{"n":"` + large + `"}`},
		{"s", "put", `,"arguments":{ "n":"` + large + `"}`}, // so large that bytes count
	} {
		add(c.server, c.tool, c.arguments)
	}
	var got []int
	for _, call := range calls(t, frames...).Calls {
		got = append(got, call.SameAs)
	}
	if diff := cmp.Diff([]int{0, 1, 0, 0, 0, 0, 0, 7, 1, 0, 0, 0, 12, 0}, got); diff != "" {
		t.Error(diff)
	}
}

// A retry with the input that the server asked for is the call itself.
func TestRoundIsNoDuplicate(t *testing.T) {
	got := calls(t, up(ask), down(needsInput), up(retry), down(complete("2")))
	if len(got.Calls) != 1 || got.Calls[0].SameAs != 0 || got.Calls[0].Incident != 0 {
		t.Errorf("%+v", got.Calls)
	}
}

// script is calls in short: + asks, and what follows ends: the letter of the tool, and
// then its ends, each with the number of the call. "a1+ a1ok" asks tool a and answers.
func script(t *testing.T, text string) []evidence.Frame {
	t.Helper()
	var frames []evidence.Frame
	for _, word := range strings.Fields(text) {
		tool, id, end := word[:1], word[1:2], word[2:]
		switch end {
		case "+":
			frames = append(frames, up(fmt.Sprintf(`{"id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"n":1}}}`, id, tool)))
		case "*": // with other arguments
			frames = append(frames, up(fmt.Sprintf(`{"id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"n":2}}}`, id, tool)))
		case "ok":
			frames = append(frames, down(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)))
		case "bad":
			frames = append(frames, down(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"isError":true}}`, id)))
		case "err":
			frames = append(frames, down(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1}}`, id)))
		case "slow":
			frames = append(frames, synthetic(evidence.SyntheticTimeout, down(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1}}`, id))))
		case "cancel":
			frames = append(frames, up(fmt.Sprintf(`{"method":"notifications/cancelled","params":{"requestId":%s}}`, id)))
		case "gone":
			frames = append(frames, synthetic(evidence.SyntheticTransport, down("")))
		default:
			t.Fatalf("what is %q?", word)
		}
	}
	return frames
}

// incident is the numbers of an incident's calls.
type incident struct {
	calls     []int
	recovered bool // the last one succeeded
}

func incidents(calls []evidence.Call) (all []incident) {
	for _, some := range capture.Incidents(calls) {
		one := incident{recovered: some[len(some)-1].Outcome == evidence.OutcomeOK}
		for _, call := range some {
			one.calls = append(one.calls, call.Seq)
		}
		all = append(all, one)
	}
	return all
}

func TestIncidents(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         []incident
	}{
		{"no failure", "a1+ a1ok a2+ a2ok", nil},
		{"left alone", "a1+ a1bad", []incident{{calls: []int{1}}}},
		{"retried", "a1+ a1bad a2+ a2ok a3+ a3ok", []incident{{calls: []int{1, 2}, recovered: true}}},
		{"retried with other arguments", "a1+ a1err a2* a2ok", []incident{{calls: []int{1, 2}, recovered: true}}},
		{"adapted at last", "a1+ a1err a2+ a2slow a3* a3ok", []incident{{calls: []int{1, 2, 3}, recovered: true}}},
		{"adapted and back", "a1+ a1err a2* a2bad a3+ a3ok", []incident{{calls: []int{1, 2, 3}, recovered: true}}},
		{"another tool between", "a1+ a1bad b2+ b2ok a3+ a3ok", []incident{{calls: []int{1, 3}, recovered: true}}},
		{"two tools", "a1+ a1bad b2+ b2bad a3+ a3ok b4+ b4ok", []incident{{calls: []int{1, 3}, recovered: true}, {calls: []int{2, 4}, recovered: true}}},
		{"again after success", "a1+ a1bad a2+ a2ok a3+ a3bad", []incident{{calls: []int{1, 2}, recovered: true}, {calls: []int{3}}}},
		{"side by side, one fails", "a1+ a2+ a1bad a2ok", []incident{{calls: []int{1}}}},
		{"side by side, the other fails", "a1+ a2+ a1ok a2bad", []incident{{calls: []int{2}}}},
		{"side by side, then retried", "a1+ a2+ a2ok a1bad a3+ a3ok", []incident{{calls: []int{1, 3}, recovered: true}}},
		{"both fail", "a1+ a2+ a1bad a2bad a3+ a3ok", []incident{{calls: []int{1, 2, 3}, recovered: true}}},
		{"retried while the first is on its way", "a1+ a2+ a2bad a3+ a3ok a1bad", []incident{{calls: []int{1, 2, 3}, recovered: true}}},
		{"asked before the failure was known", "a1+ a2+ a1bad a2ok a3+ a3ok", []incident{{calls: []int{1, 3}, recovered: true}}},
		{"a cancelled call is no failure", "a1+ a1cancel a2+ a2ok", nil},
		{"a cancelled retry", "a1+ a1bad a2+ a2cancel a3+ a3ok", []incident{{calls: []int{1, 2, 3}, recovered: true}}},
		{"never answered", "a1+ a2+ a2ok", []incident{{calls: []int{1}}}},
		{"the server ended", "a1+ a1gone a2+ a2ok", []incident{{calls: []int{1, 2}, recovered: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := calls(t, script(t, test.script)...)
			if diff := cmp.Diff(test.want, incidents(result.Calls), cmp.AllowUnexported(incident{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of some of a trial's calls, their incidents.
func TestIncidentsOfSomeCalls(t *testing.T) {
	all := calls(t, script(t, "a1+ a1bad b2+ b2bad b3* b3ok")...).Calls
	want := []incident{{calls: []int{2, 3}, recovered: true}}
	if diff := cmp.Diff(want, incidents(all[1:]), cmp.AllowUnexported(incident{})); diff != "" {
		t.Error(diff)
	}
}

func TestReads(t *testing.T) {
	got := calls(t,
		up(`{"id":1,"method":"resources/read","params":{"uri":"file:///a"}}`),
		up(`{"id":2,"method":"prompts/get","params":{"name":"greet","arguments":{"who":"you"}}}`),
		down(`{"jsonrpc":"2.0","id":2,"result":{"messages":[]}}`),
		down(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"not found"}}`),
		up(`{"id":3,"method":"resources/read","params":{"uri":"file:///b"}}`),
		up(`{"method":"notifications/cancelled","params":{"requestId":3}}`),
		up(`{"id":4,"method":"prompts/get","params":{"name":"ask"}}`),
		down(`{"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","requestState":"s"}}`),
		up(`{"id":5,"method":"prompts/get","params":{"name":"ask","requestState":"s"}}`),
		down(`{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","messages":[]}}`),
		up(`{"id":6,"method":"tools/call","params":{"name":"ask","requestState":"s"}}`),
		up(`{"method":"resources/read","params":{"uri":"file:///c"}}`),
		up(`{"id":7,"method":"resources/list"}`), down(`{"jsonrpc":"2.0","id":7,"result":{"resources":[]}}`),
	)
	want := []capture.Read{
		{Kind: "resource", Server: "s", Name: "file:///a", Outcome: evidence.OutcomeProtocolError, RequestFrame: 1},
		{Kind: "prompt", Server: "s", Name: "greet", Outcome: evidence.OutcomeOK, RequestFrame: 2},
		{Kind: "resource", Server: "s", Name: "file:///b", Outcome: evidence.OutcomeCancelled, RequestFrame: 5},
		{Kind: "prompt", Server: "s", Name: "ask", Outcome: evidence.OutcomeOK, RequestFrame: 7},
	}
	if diff := cmp.Diff(want, got.Reads); diff != "" {
		t.Error(diff)
	}
	if len(got.Calls) != 1 || got.Calls[0].Seq != 1 || len(got.Gaps) > 0 {
		t.Errorf("calls %v, gaps %v", got.Calls, got.Gaps)
	}
}
