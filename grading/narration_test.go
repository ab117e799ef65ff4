package grading_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// Unbacked and unreported calls are recorded, but not those that missing evidence leaves
// undecided.
func TestNarration(t *testing.T) {
	const reported = `{"type":"tool.execution_start","tool_call_id":"1","tool_name":"mcp__a__never","arguments":{}}
{"type":"tool.execution_start","tool_call_id":"2","tool_name":"mcp__b__never","arguments":{}}
`
	frames := call("a", "1", "x", "{}", answered)
	broken := evidence.Frame{Server: "a", Conn: "c", Dir: evidence.ToServer, Raw: []byte("{")}
	for _, test := range []struct {
		name                       string
		frames                     []evidence.Frame
		transcript                 string
		unbacked, unreported, gaps int
	}{
		{"whole", frames, reported, 2, 1, 0},
		{"a part of a's frames cannot be read", concat(frames, []evidence.Frame{broken}), reported, 1, 1, 1},
		{"a part of the transcript cannot be read", frames, reported + "{oops", 2, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := lay(t, scene{trial: evidence.Trial{Servers: servers("a", "b"), Executor: "script"}, frames: test.frames, transcript: test.transcript})
			if _, err := gradeIn(dir); err != nil {
				t.Fatal(err)
			}
			n, err := dir.Narration()
			if err != nil || n.Reported != 2 || len(n.Unbacked) != test.unbacked || len(n.Unreported) != test.unreported || len(n.Gaps) != test.gaps {
				t.Errorf("%+v, %v", n, err)
			}
		})
	}
}

func TestNoTranscriptIsNoNarration(t *testing.T) {
	for _, executor := range []string{"command", "script", "mock"} {
		dir := lay(t, scene{trial: evidence.Trial{Servers: servers("a"), Executor: executor}, frames: call("a", "1", "x", "{}", answered)})
		if _, err := gradeIn(dir); err != nil {
			t.Fatal(err)
		}
		if n, err := dir.Narration(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, %v", executor, n, err)
		}
	}
}
