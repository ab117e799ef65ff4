package results

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
)

var line3 = place{file: "calls.jsonl", part: "line", number: 3, frame: 7}

// An omission is marked, and the rest is the beginning of the original.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Runes of one to four bytes, so that ends fall within them.
		s := strings.Repeat(rapid.StringN(1, 20, -1).Draw(t, "text"), rapid.IntRange(1, 30_000).Draw(t, "times"))
		r := &room{dir: "trials/a/1", left: rapid.IntRange(0, 2*maxText).Draw(t, "left")}
		quoted, err := evidence.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		text, raw := r.text(s, line3), r.json(quoted, line3)
		if r.left < 0 || !utf8.ValidString(text) || !json.Valid(raw) {
			t.Fatalf("%d left, %q, %s", r.left, text, raw)
		}
		if len(text) > maxText+alwaysTaken || len(raw) > 6*maxText+2*alwaysTaken {
			t.Fatalf("%d and %d bytes", len(text), len(raw))
		}
		if text == s {
			return
		}
		begins, mark, _ := strings.Cut(text[strings.LastIndex(text, "\n["):], "[")
		left := 0
		if _, err := fmt.Sscanf(mark, "%d bytes left out; whole in trials/a/1/calls.jsonl, line 3, and frame 7]", &left); err != nil {
			t.Fatalf("%q: %v", mark, err)
		}
		begins = strings.TrimSuffix(text, begins+"["+mark)
		if !strings.HasPrefix(s, begins) || len(begins)+left != len(s) {
			t.Fatalf("%d bytes and %d left out of %d", len(begins), left, len(s))
		}
	})
}

// All values of a trial have one room, and short ones are always there.
func TestRoomOfATrial(t *testing.T) {
	r := roomFor(Trial{})
	long, sum := strings.Repeat("x", maxText), 0
	for range 2 * maxOfTrial / maxText {
		sum += len(r.text(long, line3))
	}
	if most := maxOfTrial + 2*maxOfTrial/maxText*alwaysTaken; sum > most || sum < maxOfTrial {
		t.Errorf("%d bytes of values, want at most %d", sum, most)
	}
	if got := r.text("short", line3); got != "short" {
		t.Errorf("%q", got)
	}
	if got := string(r.json(json.RawMessage(`{"n":1}`), line3)); got != `{"n":1}` {
		t.Error(got)
	}
}

// The size of a trial's part of results is limited for any calls and output.
func TestResultsOfATalkativeTrial(t *testing.T) {
	heavytest.Mark(t)
	long := strings.Repeat("y", maxText+1)
	result, _ := json.Marshal(map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": long}}})
	arguments, _ := json.Marshal(map[string]string{"path": long, "file_text": long})
	trial := graded("a", 1, evidence.ClassPass, 1, 1)
	trial.Path = "trials/a/1"
	for i := range 120 {
		trial.Calls = append(trial.Calls, evidence.Call{Seq: i + 1, Server: "s", Tool: "t", ID: json.RawMessage("1"), Arguments: arguments, Result: evidence.NewResult(result), Outcome: evidence.OutcomeToolError, RequestFrame: int64(2*i + 1), ResponseFrame: int64(2*i + 2)})
		trial.Transcript = append(trial.Transcript, evidence.TranscriptEvent{Type: "assistant.message", Content: long, Message: long, ToolResult: result})
	}
	completed, err := outline(trial).Complete(trial)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(completed)
	if err != nil {
		t.Fatal(err)
	}
	if most := 2 * maxOfTrial; len(written) > most {
		t.Errorf("%d MiB, more than %d", len(written)>>20, most>>20)
	}
	first, event, reported := completed.SessionDigest.ToolCalls[0], completed.ToolEvents[119], completed.Transcript[119]
	for what, said := range map[string][2]string{
		"path":       {first.Arguments.Path, "whole in trials/a/1/calls.jsonl, line 1, and frame 1]"},
		"content":    {first.Result.Content, "whole in trials/a/1/calls.jsonl, line 1, and frame 2]"},
		"result":     {string(event.Result), "whole in trials/a/1/calls.jsonl, line 120, and frame 240"},
		"error":      {event.Error, "whole in trials/a/1/calls.jsonl, line 120, and frame 240]"},
		"transcript": {reported.Message, "whole in trials/a/1/transcript.jsonl, line 120]"},
	} {
		if !strings.Contains(said[0], said[1]) {
			t.Errorf("%s: %s", what, said[0][max(0, len(said[0])-200):])
		}
	}
}

// A value that nests deep is a value that nests deep to every reader of results.json, and
// laid out hundreds of times as long.
func TestNestedValues(t *testing.T) {
	nested := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	}
	r := roomFor(Trial{})
	if got := r.json(nested(maxNested), line3); jsontext.Depth(got) != maxNested {
		t.Errorf("%s", got)
	}
	if got := string(r.json(nested(9000), line3)); !strings.Contains(got, "whole in calls.jsonl, line 3") || jsontext.Depth([]byte(got)) != 1 {
		t.Error(got)
	}
	out := jsonWriter{w: io.Discard}
	if laid := out.encode(ToolEvent{Result: nested(maxNested)}); len(laid) > 1<<10 {
		t.Errorf("%d bytes of %d brackets", len(laid), 2*maxNested)
	}
}
