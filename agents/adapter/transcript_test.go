package adapter_test

import (
	"os"
	"testing"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
)

// The output of each agent, from a run with a scripted model and the server ever, is read as
// its adapter declares: a tool that answers, one that returns an error, one that fails with
// a protocol error, one of the agent's own, and the last message. Copilot CLI does not print
// the third.
func TestTranscripts(t *testing.T) {
	for _, name := range adapter.Names() {
		t.Run(name, func(t *testing.T) {
			a, _ := adapter.Builtin(name)
			in, err := os.Open("testdata/" + name + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close() }()
			var got []byte
			var last string
			report, err := a.Transcript.Read(in, func(e evidence.TranscriptEvent) error {
				if e.Content != "" {
					last = e.Content
				}
				line, err := evidence.Marshal(e)
				got = append(append(got, line...), '\n')
				return err
			})
			if err != nil || report.Unread > 0 || report.Torn || last != "All done." {
				t.Errorf("%+v, %v, the last message is %q", report, err, last)
			}
			file := "testdata/" + name + ".events"
			golden.Check(t, file, string(got))
		})
	}
}
