package capture_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// conversation draws the frames of a few calls of one client, complete with their
// ends, each after its request.
func conversation(t *rapid.T, conn string) []evidence.Frame {
	server := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "server")
	var frames []evidence.Frame
	add := func(dir evidence.Direction, format string, args ...any) {
		frames = append(frames, evidence.Frame{
			Server: server, Conn: conn, Dir: dir, Raw: fmt.Appendf(nil, format, args...),
		})
	}
	for id := range rapid.IntRange(1, 4).Draw(t, "calls") {
		add(evidence.ToServer, `{"id":%d,"method":"tools/call","params":{"name":"t%d"}}`, id, id%2)
		switch rapid.SampledFrom([]string{"ok", "error", "tool error", "cancel", "round", "lost"}).Draw(t, "end") {
		case "ok":
			add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		case "error":
			add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no"}}`, id)
		case "tool error":
			add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"isError":true}}`, id)
		case "cancel":
			add(evidence.ToServer, `{"method":"notifications/cancelled","params":{"requestId":%d}}`, id)
		case "round":
			add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","inputRequests":{}}}`, id)
			add(evidence.ToServer, `{"id":"r%d","method":"tools/call","params":{"name":"t%d","inputResponses":{}}}`, id, id%2)
			add(evidence.ToClient, `{"jsonrpc":"2.0","id":"r%d","result":{}}`, id)
		}
	}
	return frames
}

// The calls are the same in any interleaving of the connections.
func TestInterleavingChangesNoCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queues [][]evidence.Frame
		var oneByOne, mixed []evidence.Frame
		for i := range rapid.IntRange(1, 4).Draw(t, "conversations") {
			frames := conversation(t, fmt.Sprint(i))
			queues = append(queues, frames)
			oneByOne = append(oneByOne, frames...)
		}
		for len(queues) > 0 {
			i := rapid.IntRange(0, len(queues)-1).Draw(t, "next")
			mixed = append(mixed, queues[i][0])
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = slices.Delete(queues, i, i+1)
			}
		}
		want, got := byConversation(t, oneByOne), byConversation(t, mixed)
		ignore := cmpopts.IgnoreFields(evidence.Call{}, "Seq", "Start", "End", "RequestFrame", "ResponseFrame", "SameAs", "Incident")
		if diff := gocmp.Diff(want, got, ignore); diff != "" {
			t.Fatal(diff)
		}
	})
}

func byConversation(t *rapid.T, frames []evidence.Frame) []evidence.Call {
	result, err := capture.Calls(number(frames))
	if err != nil || len(result.Gaps) > 0 {
		t.Fatal(err, result.Gaps)
	}
	slices.SortStableFunc(result.Calls, func(a, b evidence.Call) int { return cmp.Compare(a.Conn, b.Conn) })
	return result.Calls
}

// Calls marked as duplicates make the same request; incidents
// partition calls of one tool, begin with a failure, and end with their first success.
func TestDuplicatesAndIncidents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var frames []evidence.Frame
		for i := range rapid.IntRange(1, 3).Draw(t, "conversations") {
			frames = append(frames, conversation(t, fmt.Sprint(i))...)
		}
		result, err := capture.Calls(number(frames))
		if err != nil {
			t.Fatal(err)
		}
		all := result.Calls
		for i, call := range all {
			same := func(other evidence.Call) bool {
				return other.Server == call.Server && other.Tool == call.Tool && jsontext.Same(other.Arguments, call.Arguments)
			}
			first := slices.IndexFunc(all, same)
			if first == i && call.SameAs != 0 || first < i && call.SameAs != first+1 {
				t.Errorf("call %d is the same as %d; want %d", i+1, call.SameAs, first+1)
			}
		}
		for _, incident := range capture.Incidents(all) {
			first, last := incident[0], incident[len(incident)-1]
			if first.Outcome == evidence.OutcomeOK {
				t.Errorf("%+v: begins with %s", incident, first.Outcome)
			}
			for _, call := range incident {
				if call.Server != first.Server || call.Tool != first.Tool || call.Outcome == evidence.OutcomeOK && call.Seq != last.Seq {
					t.Errorf("%+v: call %+v", incident, call)
				}
			}
		}
	})
}

// How an entry is written, and in which order tools are listed, changes nothing.
func TestListsAreComparedByValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]`), 1, 5, rapid.ID).Draw(t, "tools")
		var frames []evidence.Frame
		a := &dialogue{conn: "a", frames: &frames}
		for range 2 {
			var entries []string
			for _, name := range rapid.Permutation(names).Draw(t, "order") {
				parts := rapid.Permutation([]string{fmt.Sprintf(`"name":%q`, name), `"description":"d"`, `"inputSchema":{"a":1,"b":2}`}).Draw(t, "keys")
				entries = append(entries, "{"+strings.Join(parts, rapid.SampledFrom([]string{",", " , "}).Draw(t, "space"))+"}")
			}
			a.lists("", entries...)
		}
		result, err := capture.Calls(number(frames))
		if listed := result.Catalogs[0]; err != nil || len(listed.Changes) > 0 || len(listed.Tools) != len(names) {
			t.Fatal(err, listed.Changes)
		}
	})
}

func FuzzCalls(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"tools/list","params":{"cursor":"p"}}`, `{"method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"get","inputSchema":{"required":["x"]}},{"name":"get"}],"nextCursor":"p"}}`,
		`{"id":1,"method":"resources/read","params":{"uri":"a:b"}}`,
		ask, ok, cancel, failed, needsInput, retry, "[" + ask + "," + ask + "]", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}`,
	} {
		f.Add([]byte(ask), []byte(seed), byte(0))
		f.Add([]byte(seed), []byte(ok), byte(3))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, bits byte) {
		frames := []evidence.Frame{up(string(first)), down(string(second)), up(string(second)), down(string(first))}
		if bits&1 != 0 {
			frames[1].Synthetic = evidence.SyntheticTransport
		}
		if bits&2 != 0 {
			frames[2].Conn = "d"
		}
		result, err := capture.Calls(number(frames))
		if err != nil {
			t.Fatal(err)
		}
		for i, call := range result.Calls {
			if call.Seq != i+1 || call.Outcome == "" || call.RequestFrame == 0 {
				t.Errorf("call %d is not whole: %+v", i, call)
			}
		}
	})
}

// FuzzChecks lists a tool with any entry and calls it with any arguments.
func FuzzChecks(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"type":"object","properties":{"a":{"type":"string","pattern":"^a+$"}},"required":["a"],"additionalProperties":false}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"not":{"$ref":"#/$defs/a"}}]}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"enum":[1,1e5]}},"if":true,"then":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}}}`,
		`{"$id":"x:y","$dynamicAnchor":"m","items":{"$dynamicRef":"#m"},"unevaluatedProperties":false,"contains":{"const":{}},"maxContains":1}`,
		`{"patternProperties":{"(?!x)":{"multipleOf":0.1}},"propertyNames":{"maxLength":2},"oneOf":[{"uniqueItems":true},{"format":"regex"}]}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[1,"x",{"b":1e400}],"c":5}`))
	}
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		if !jsonValid(schema) || !jsonValid(arguments) {
			t.Skip()
		}
		frames := []evidence.Frame{
			up(`{"id":0,"method":"tools/list"}`),
			down(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"x","inputSchema":%s}]}}`, schema)),
			up(fmt.Sprintf(`{"id":1,"method":"tools/call","params":{"name":"x","arguments":%s}}`, arguments)),
			down(ok),
		}
		start := time.Now()
		first, second := checkedOnce(t, frames), checkedOnce(t, frames)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
		if diff := gocmp.Diff(first, second); diff != "" {
			t.Errorf("the same frames, and another answer:\n%s", diff)
		}
		if first.Known == nil || !*first.Known || (first.Valid == nil) == (len(first.Notes) == 0) || (first.Valid != nil && !*first.Valid) != (len(first.Invalid) > 0) {
			t.Errorf("%+v", first)
		}
	})
}

func checkedOnce(t *testing.T, frames []evidence.Frame) evidence.Call {
	t.Helper()
	call := calls(t, frames...).Calls[0]
	call.Notes = slices.DeleteFunc(call.Notes, func(note string) bool {
		return strings.HasPrefix(note, capture.NoteDuplicateKey) || strings.HasPrefix(note, capture.NoteMalformed)
	})
	return call
}

func FuzzEqual(f *testing.F) {
	f.Add([]byte(`{"a":[1,1.0,1e2,"x",null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !jsontext.Same(raw, raw) && jsonValid(raw) {
			t.Errorf("%q does not equal itself", raw)
		}
	})
}

// Ten thousand calls in identical rounds must not take quadratic time.
func TestManyAlikeRounds(t *testing.T) {
	var frames []evidence.Frame
	for i := range 10_000 {
		frames = append(frames,
			up(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"a"}}`, i)),
			down(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","requestState":"s"}}`, i)))
	}
	for i := range 10_000 {
		frames = append(frames, up(fmt.Sprintf(`{"id":"r%d","method":"tools/call","params":{"name":"a","requestState":"s"}}`, i)))
	}
	start := time.Now()
	if got := calls(t, frames...); len(got.Calls) != 10_000 {
		t.Errorf("%d calls", len(got.Calls))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
