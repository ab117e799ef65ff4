package agents_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
)

func TestMock(t *testing.T) {
	for _, test := range []struct {
		name   string
		files  int
		output string
	}{
		{"no files", 0, "Mock response for: count the bolts"},
		{"two files", 2, "Mock response for: count the bolts\nAnalyzed 2 file(s)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, events strings.Builder
			in := input.Input{Prompt: "count the bolts", Files: test.files}
			err := agents.Run(t.Context(), evidence.ExecutorMock, in, &stdout, io.Discard, &events)
			if err != nil {
				t.Fatal(err)
			}
			if stdout.String() != test.output {
				t.Errorf("output %q, want %q", stdout.String(), test.output)
			}
			want := `{"type":"user.message","content":"count the bolts"}` + "\n" +
				`{"type":"assistant.message","content":"` + strings.ReplaceAll(test.output, "\n", `\n`) + `"}` + "\n"
			if events.String() != want {
				t.Errorf("transcript\n%swant\n%s", events.String(), want)
			}
		})
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestMockReportsFailedWrites(t *testing.T) {
	gone := errors.New("gone")
	var ok strings.Builder
	if err := agents.Run(t.Context(), evidence.ExecutorMock, input.Input{}, brokenWriter{gone}, io.Discard, &ok); !errors.Is(err, gone) {
		t.Errorf("stdout: %v", err)
	}
	if err := agents.Run(t.Context(), evidence.ExecutorMock, input.Input{}, &ok, io.Discard, brokenWriter{gone}); !errors.Is(err, gone) {
		t.Errorf("transcript: %v", err)
	}
}
