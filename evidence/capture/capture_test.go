package capture_test

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// epoch is when the first frame of every test crossed; each takes a millisecond.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func up(raw string) evidence.Frame   { return frame(evidence.ToServer, raw) }
func down(raw string) evidence.Frame { return frame(evidence.ToClient, raw) }

func frame(dir evidence.Direction, raw string) evidence.Frame {
	return evidence.Frame{Server: "s", Conn: "c", Dir: dir, Raw: []byte(raw)}
}

func on(conn string, f evidence.Frame) evidence.Frame { f.Conn = conn; return f }

func synthetic(kind evidence.Synthetic, f evidence.Frame) evidence.Frame {
	f.Synthetic = kind
	return f
}

func number(frames []evidence.Frame) iter.Seq2[evidence.Frame, error] {
	return func(yield func(evidence.Frame, error) bool) {
		for i, f := range frames {
			f.Seq = int64(i + 1)
			f.Time = epoch.Add(time.Duration(i) * time.Millisecond)
			if !yield(f, nil) {
				return
			}
		}
	}
}

func calls(t *testing.T, frames ...evidence.Frame) capture.Result {
	t.Helper()
	result, err := capture.Calls(number(frames))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// withoutDigests compares tools without their digests.
var withoutDigests = cmpopts.IgnoreFields(evidence.Tool{}, "Digest")

const (
	ask    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","arguments":{"n":1}}}`
	ok     = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone"}}`
)

func TestOutcome(t *testing.T) {
	left := synthetic(evidence.SyntheticAbandoned, up(cancel))
	for _, test := range []struct {
		name   string
		frames []evidence.Frame
		want   evidence.Outcome
		notes  []string
	}{
		{"answered", []evidence.Frame{up(ask), down(ok)}, evidence.OutcomeOK, nil},
		{"isError", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`)}, evidence.OutcomeToolError, nil},
		{"isError is false", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":false}}`)}, evidence.OutcomeOK, nil},
		{"isError is a string", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":"true"}}`)}, evidence.OutcomeProtocolError, []string{"invalid_result: frame 2: its isError is not a boolean"}},
		{"isError is a number", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":0}}`)}, evidence.OutcomeProtocolError, []string{"invalid_result: frame 2: its isError is not a boolean"}},
		{"isError is null", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":null}}`)}, evidence.OutcomeProtocolError, []string{"invalid_result: frame 2: its isError is not a boolean"}},
		{"a result that is no object", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":null}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: it has neither a result nor an error"}},
		{"a result that is a text", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":"x"}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: its result is not an object"}},
		{"an error beside a result", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-1,"message":"no"}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: both a result and an error"}},
		{"a null error beside a result", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`)}, evidence.OutcomeOK, []string{"malformed: frame 2: its error is null beside a result"}},
		{"a null result beside an error", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"no"}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: its result is null beside an error"}},
		{"a null method beside a result", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"method":null,"result":{}}`)}, evidence.OutcomeOK, []string{"malformed: frame 2: an answer has no method"}},
		{"a result that looks like a call", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: an answer has no method"}},
		{"an error code that is a text", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"error":{"code":"E42","message":"no"}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: the code of its error is not an integer"}},
		{"NaN in a result", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"mean":NaN}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: not JSON: invalid character 'N' looking for beginning of value"}},
		{"an answer that is cut", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"content":[`)}, evidence.OutcomeTransportError, nil},
		{"no version", []evidence.Frame{up(ask), down(`{"id":1,"result":{"isError":true}}`)}, evidence.OutcomeToolError, []string{`malformed: frame 2: no "jsonrpc": "2.0"`}},
		{"another key", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{},"took":3}`)}, evidence.OutcomeOK, []string{`malformed: frame 2: its key "took" is none of JSON-RPC`}},
		{"an outcome twice", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"isError":false}}`)}, evidence.OutcomeProtocolError, []string{"duplicate_key: frame 2", "malformed: frame 2: a key of its result comes twice"}},
		{"a result twice", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{},"result":{"isError":true}}`)}, evidence.OutcomeProtocolError, []string{"duplicate_key: frame 2", "malformed: frame 2: a key of its envelope comes twice"}},
		{"an answer in a batch with junk", []evidence.Frame{up(ask), down(`[3,{"id":1,"result":{}},{"jsonrpc":"2.0","id":5,"result":{}}]`)}, evidence.OutcomeOK, []string{`malformed: frame 2: no "jsonrpc": "2.0"`}},
		{"an error without an id, then the answer", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`), down(ok)}, evidence.OutcomeOK, nil},
		{"an error without an id alone", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`)}, evidence.OutcomeProtocolError, nil},
		{"an error without an id, then none", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`), synthetic(evidence.SyntheticTransport, down(failed))}, evidence.OutcomeProtocolError, nil},
		{"an error without an id, then the proxy's timeout", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`), synthetic(evidence.SyntheticTimeout, down(failed))}, evidence.OutcomeTimeout, nil},
		{"junk before the answer", []evidence.Frame{up(ask), down(`[DONE]`), down(ok)}, evidence.OutcomeOK, nil},
		{"junk after the answer", []evidence.Frame{up(ask), down(ok), down(`[DONE]`)}, evidence.OutcomeOK, nil},
		{"junk alone", []evidence.Frame{up(ask), down(`<html>`)}, evidence.OutcomeTransportError, nil},
		{"more values than are read", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"x":[` + strings.Repeat("1,", 1<<20) + `1]}}`)}, evidence.OutcomeTransportError, nil},
		{"JSON-RPC error", []evidence.Frame{up(ask), down(failed)}, evidence.OutcomeProtocolError, nil},
		{"no answer", []evidence.Frame{up(ask)}, evidence.OutcomeTransportError, nil},
		{"the proxy's timeout", []evidence.Frame{up(ask), synthetic(evidence.SyntheticTimeout, down(failed))}, evidence.OutcomeTimeout, nil},
		{"a late answer after it", []evidence.Frame{up(ask), synthetic(evidence.SyntheticTimeout, down(failed)), down(ok)}, evidence.OutcomeTimeout, []string{"late_response: frame 3"}},
		{"the proxy cancels after its timeout", []evidence.Frame{up(ask), synthetic(evidence.SyntheticTimeout, up(cancel))}, evidence.OutcomeTimeout, nil},
		{"the proxy's transport error", []evidence.Frame{up(ask), synthetic(evidence.SyntheticTransport, down(failed))}, evidence.OutcomeTransportError, nil},
		{"the server ends", []evidence.Frame{up(ask), synthetic(evidence.SyntheticTransport, down("")), down(ok)}, evidence.OutcomeTransportError, []string{"late_response: frame 3"}},
		{"cancelled", []evidence.Frame{up(ask), up(cancel)}, evidence.OutcomeCancelled, nil},
		{"cancelled, then answered", []evidence.Frame{up(ask), up(cancel), down(ok)}, evidence.OutcomeCancelled, []string{"late_response: frame 3"}},
		{"abandoned", []evidence.Frame{up(ask), left}, evidence.OutcomeAbandoned, nil},
		{"abandoned, then answered", []evidence.Frame{up(ask), left, seenBy(evidence.SideServer, down(ok))}, evidence.OutcomeAbandoned, []string{"late_response: frame 3"}},
		{"abandoned, then answered twice", []evidence.Frame{up(ask), left, seenBy(evidence.SideServer, down(ok)), down(ok)}, evidence.OutcomeAbandoned, []string{"late_response: frame 3", "late_response: frame 4"}},
		{"abandoned, and the answer fetched later", []evidence.Frame{up(ask), left, seenBy(evidence.SideServer, down(ok)), seenBy(evidence.SideAgent, down(ok))}, evidence.OutcomeOK, []string{"late_response: frame 3"}},
		{"abandoned, and back for the answer", []evidence.Frame{up(ask), left, down(ok), down(ok)}, evidence.OutcomeOK, []string{"duplicate_response: frame 4"}},
		{"abandoned, and the server ends", []evidence.Frame{up(ask), left, synthetic(evidence.SyntheticTransport, down(failed))}, evidence.OutcomeAbandoned, nil},
		{"answered, then left", []evidence.Frame{up(ask), down(ok), left}, evidence.OutcomeOK, nil},
		{"answered, then cancelled", []evidence.Frame{up(ask), down(ok), up(cancel)}, evidence.OutcomeOK, nil},
		{"a cancellation by the server is of its own request", []evidence.Frame{up(ask), down(cancel), down(ok)}, evidence.OutcomeOK, nil},
		{"answered twice", []evidence.Frame{up(ask), down(ok), down(failed)}, evidence.OutcomeOK, []string{"duplicate_response: frame 3"}},
		{"answered on another conversation", []evidence.Frame{up(ask), on("d", down(ok))}, evidence.OutcomeTransportError, nil},
		{"answered with the id of another type", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":"1","result":{}}`)}, evidence.OutcomeProtocolError, []string{"malformed: frame 2: its id is of another type than the request's"}},
		{"answered with the id of the same value", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1.0,"result":{}}`)}, evidence.OutcomeOK, nil},
		{"the client's own answer is none", []evidence.Frame{up(ask), up(ok)}, evidence.OutcomeTransportError, nil},
		{"duplicate keys", []evidence.Frame{up(ask), down(`{"jsonrpc":"2.0","id":1,"result":{"x":{"a":1,"a":2}}}`)}, evidence.OutcomeOK, []string{"duplicate_key: frame 2"}},
		{"not UTF-8", []evidence.Frame{up(ask), down("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"\xff\"}}")}, evidence.OutcomeOK, []string{"malformed: frame 2: it is not UTF-8"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := calls(t, test.frames...)
			if len(got.Calls) != 1 || len(got.Gaps) != 0 {
				t.Fatalf("calls %v, gaps %v", got.Calls, got.Gaps)
			}
			if call := got.Calls[0]; call.Outcome != test.want || !cmp.Equal(call.Notes, test.notes) {
				t.Errorf("outcome %s, notes %q; want %s, %q", call.Outcome, call.Notes, test.want, test.notes)
			}
		})
	}
}

func TestCallKeepsWhatCrossed(t *testing.T) {
	got := calls(t,
		up(`{"jsonrpc":"2.0","id":"a\u0062","method":"tools\/call","params":{"arguments":{"n":9007199254740993,"x":1.0},"name":"get"}}`),
		down(`{"jsonrpc":"2.0","id":"ab","result":{"structuredContent":12345678901234567890}}`),
	)
	want := []evidence.Call{{
		Seq: 1, Server: "s", Conn: "c", ID: json.RawMessage(`"a\u0062"`), Tool: "get",
		Arguments: json.RawMessage(`{"n":9007199254740993,"x":1.0}`),
		Result:    evidence.NewResult(json.RawMessage(`{"structuredContent":12345678901234567890}`)),
		Outcome:   evidence.OutcomeOK, Start: epoch, End: epoch.Add(time.Millisecond),
		RequestFrame: 1, ResponseFrame: 2,
	}}
	if diff := cmp.Diff(want, got.Calls); diff != "" {
		t.Error(diff)
	}
}

func TestGaps(t *testing.T) {
	truncated := up(ask[:20])
	truncated.Truncated = 7
	renamed := up(ask)
	renamed.RedactedEnvelope = true
	for _, test := range []struct {
		name  string
		frame evidence.Frame
		why   string
	}{
		{"truncated", truncated, "7 bytes"},
		{"redacted where it matters", renamed, "waza removed a secret from its id"},
		{"not JSON", up(`{"id":`), "unexpected end"},
		{"not an object", up(`"hello"`), "neither a request"},
		{"null", up(`null`), "neither a request"},
		{"empty", up(""), "unexpected end"},
		{"an empty batch", up(`[]`), "empty batch"},
		{"part of a batch", up(`[1]`), "neither a request"},
		{"neither request nor answer", up(`{"id":1}`), "neither a request"},
		{"a method that is no string", up(`{"id":1,"method":{}}`), "not a name"},
		{"a method in other case", up(`{"id":1,"Method":"tools/call"}`), `"Method"`},
		{"a second method in other case", up(`{"id":1,"method":"ping","METHOD":"tools/call"}`), `"METHOD"`},
		{"a tool's name in other case", up(`{"id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`), `"Name"`},
		{"a method that ends in C", up(`{"id":1,"method\u0000x":"tools/call","method":"ping"}`), `"method\x00x"`},
		{"a method twice", up(`{"id":1,"method":"tools/call","params":{"name":"a"},"method":"ping"}`), "envelope comes twice"},
		{"an id twice", up(`{"id":1,"method":"ping","id":2}`), "envelope comes twice"},
		{"a tool's name twice", up(`{"id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`), "parameters comes twice"},
		{"a tool's name in a list", up(`{"id":1,"method":"tools/call","params":{"name": ["a"]}}`), "is not a string"},
		{"parameters in a list", up(`{"id":1,"method":"tools/call","params":["a",{}]}`), "is not a string"},
		{"a number for a resource", up(`{"id":1,"method":"resources/read","params":{"uri":5}}`), "is not a string"},
		{"an argument twice", up(`{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[{"y":1,"y":2}]}}}`), "parameters comes twice"},
		{"a name that ends in C", up(`{"id":1,"method":"tools/call","params":{"name":"a\u0000b"}}`), "NUL"},
		{"a method's value that ends in C", up(`{"id":1,"method":"tools/call\u0000","params":{"name":"a"}}`), "NUL"},
		{"a request that is not UTF-8", up("{\"id\":1,\"method\":\"ping\",\"met\xffhod\":\"tools/call\"}"), "not UTF-8"},
		{"a call that asks for no answer", up(`{"method":"tools/call","params":{"name":"a"}}`), "without an id"},
		{"a call whose id is none", up(`{"id":true,"method":"tools/call","params":{"name":"a"}}`), "without an id"},
		{"a direction that is none", frame("sideways", ask), "direction"},
		{"a timeout of nothing", synthetic(evidence.SyntheticTimeout, down("")), "timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := calls(t, test.frame)
			if len(got.Gaps) != 1 || !strings.Contains(got.Gaps[0].String(), test.why) {
				t.Errorf("gaps %v; want one with %q", got.Gaps, test.why)
			}
		})
	}
}

func TestGapWhereFramesAreMissing(t *testing.T) {
	frames := func(yield func(evidence.Frame, error) bool) {
		first, second := up(ask), down(ok)
		first.Seq, second.Seq = 1, 3
		_ = yield(first, nil) && yield(second, nil)
	}
	got, err := capture.Calls(frames)
	if err != nil || len(got.Gaps) != 1 || got.Gaps[0].Server != "" {
		t.Errorf("gaps %v, error %v; want one of any server", got.Gaps, err)
	}
}

func TestErrorComesWithWhatWasBefore(t *testing.T) {
	torn := errors.New("torn")
	got, err := capture.Calls(func(yield func(evidence.Frame, error) bool) {
		first := up(ask)
		first.Seq = 1
		_ = yield(first, nil) && yield(evidence.Frame{}, torn)
	})
	if !errors.Is(err, torn) || len(got.Calls) != 1 {
		t.Errorf("calls %v, error %v", got.Calls, err)
	}
}

// A call that reached no session counts once it was made in another one, and as a failure if it
// never was, or if no session takes it.
func TestExpiredSession(t *testing.T) {
	expired := func(conn string) []evidence.Frame {
		return []evidence.Frame{on(conn, up(ask)), on(conn, synthetic(evidence.SyntheticExpired, down(failed)))}
	}
	other := strings.Replace(ask, "get", "put", 1)
	for name, test := range map[string]struct {
		frames []evidence.Frame
		want   string
	}{
		"made again":           {append(expired("a"), on("b", up(ask)), on("b", down(ok))), "cancelled ok"},
		"made again and fails": {append(expired("a"), on("b", up(ask)), on("b", down(failed))), "cancelled protocol_error"},
		"not made again":       {append(expired("a"), on("b", up(other)), on("b", down(ok))), "transport_error ok"},
		"made before":          {append([]evidence.Frame{on("b", up(ask)), on("b", down(ok))}, expired("a")...), "ok transport_error"},
		"again and again":      {append(expired("a"), expired("b")...), "transport_error transport_error"},
	} {
		var got []string
		for _, call := range calls(t, test.frames...).Calls {
			got = append(got, string(call.Outcome))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %s", name, got, test.want)
		}
	}
}

// A call that got no answer, and that the client made again in another session for the same use, counts as it is, and
// need not be reported.
func TestRepeatedForOneUse(t *testing.T) {
	of := func(use string) string {
		return strings.Replace(ask, `"n":1}`, `"n":1},"_meta":{"claudecode/toolUseId":"`+use+`"}`, 1)
	}
	lost := []evidence.Frame{on("a", up(of("use-1"))), on("a", synthetic(evidence.SyntheticTransport, down(failed)))}
	for again, want := range map[string]string{of("use-1"): "session_expired: made again as call 2", of("use-2"): "", ask: ""} {
		got := calls(t, append(lost, on("b", up(again)), on("b", down(ok)))...).Calls
		if len(got) != 2 || got[0].Outcome != evidence.OutcomeTransportError || strings.Join(got[0].Notes, "") != want {
			t.Errorf("%s: %+v, want the note %q", again, got, want)
		}
		unreported := capture.Pair(map[string][]string{"s": {"get"}}, got, claims{}.tell("mcp__s__get", `{"n":1}`, true, "")).Narration().Unreported
		if (len(unreported) == 0) != (want != "") {
			t.Errorf("%s: unreported %d", again, unreported)
		}
	}
}

func TestIDReusedWhileOpen(t *testing.T) {
	got := calls(t, up(ask), up(strings.Replace(ask, "get", "put", 1)), down(ok), down(failed))
	if len(got.Calls) != 2 || got.Calls[0].Outcome != evidence.OutcomeOK || got.Calls[1].Outcome != evidence.OutcomeProtocolError {
		t.Fatalf("calls %v", got.Calls)
	}
	if want := []string{"id_reused: frame 2"}; !cmp.Equal(got.Calls[1].Notes, want) {
		t.Errorf("notes %q; want %q", got.Calls[1].Notes, want)
	}
}

func TestTaskIsAGap(t *testing.T) {
	got := calls(t,
		up(`{"id":1,"method":"tools/call","params":{"name":"slow","task":{"ttl":1}}}`),
		down(`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"x","status":"working"}}}`))
	if len(got.Calls) != 1 || len(got.Gaps) != 1 {
		t.Errorf("calls %v, gaps %v", got.Calls, got.Gaps)
	}
}

func TestCatalog(t *testing.T) {
	got := calls(t,
		up(`{"id":1,"method":"tools/list"}`),
		down(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","description":"first","inputSchema":{"maximum":1e2}}],"nextCursor":"p"}}`),
		up(`{"id":2,"method":"tools/list","params":{"cursor":"p"}}`),
		down(`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"b","annotations":{"readOnlyHint":true}},{"title":"no name"}]}}`),
		up(`{"id":3,"method":"tools/list"}`),
		down(`{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","description":"second"}]}}`),
		up(`{"id":4,"method":"tools/list"}`),
		down(`{"jsonrpc":"2.0","id":4,"error":{"code":1}}`),
	)
	want := []evidence.Tool{
		{Name: "a", Description: "second", First: 2, Frame: 6},
		{Name: "b", Annotations: json.RawMessage(`{"readOnlyHint":true}`), First: 4, Frame: 4, Removed: 6},
	}
	if diff := cmp.Diff(want, got.Catalogs[0].Tools, withoutDigests); diff != "" {
		t.Error(diff)
	}
	if len(got.Calls) != 0 || len(got.Gaps) != 0 {
		t.Errorf("calls %v, gaps %v", got.Calls, got.Gaps)
	}
}
