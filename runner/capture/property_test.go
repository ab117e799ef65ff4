package capture_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/evidence"
	"pgregory.net/rapid"
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
			add(evidence.ToClient, `{"id":%d,"result":{}}`, id)
		case "error":
			add(evidence.ToClient, `{"id":%d,"error":{"code":1}}`, id)
		case "tool error":
			add(evidence.ToClient, `{"id":%d,"result":{"isError":true}}`, id)
		case "cancel":
			add(evidence.ToServer, `{"method":"notifications/cancelled","params":{"requestId":%d}}`, id)
		case "round":
			add(evidence.ToClient, `{"id":%d,"result":{"resultType":"input_required","inputRequests":{}}}`, id)
			add(evidence.ToServer, `{"id":"r%d","method":"tools/call","params":{"name":"t%d","inputResponses":{}}}`, id, id%2)
			add(evidence.ToClient, `{"id":"r%d","result":{}}`, id)
		}
	}
	return frames
}

// Whatever the order in which conversations cross, their calls are the same.
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
	if err != nil || len(result.Gaps) > 0 || len(result.Notes) > 0 {
		t.Fatal(err, result.Gaps, result.Notes)
	}
	slices.SortStableFunc(result.Calls, func(a, b evidence.Call) int { return cmp.Compare(a.Conn, b.Conn) })
	return result.Calls
}

func FuzzCalls(f *testing.F) {
	for _, seed := range []string{ask, ok, cancel, failed, needsInput, retry, "[" + ask + "," + ask + "]", `{"id":1,"result":{"tools":[{"name":"a"}]}}`} {
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

func FuzzEqual(f *testing.F) {
	f.Add([]byte(`{"a":[1,1.0,1e2,"x",null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !capture.Equal(raw, raw) && jsonValid(raw) {
			t.Errorf("%q does not equal itself", raw)
		}
	})
}

// Ten thousand calls whose rounds all look alike must not cost their square.
func TestManyAlikeRounds(t *testing.T) {
	var frames []evidence.Frame
	for i := range 10_000 {
		frames = append(frames,
			up(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"a"}}`, i)),
			down(fmt.Sprintf(`{"id":%d,"result":{"resultType":"input_required","requestState":"s"}}`, i)))
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
