package mock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/mock"
)

func TestRun(t *testing.T) {
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
			err := mock.Run(mock.Options{
				Prompt: "count the bolts", Files: test.files, Stdout: &stdout, Transcript: &events,
			})
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

func TestRunReportsFailedWrites(t *testing.T) {
	gone := errors.New("gone")
	var ok strings.Builder
	if err := mock.Run(mock.Options{Stdout: brokenWriter{gone}, Transcript: &ok}); !errors.Is(err, gone) {
		t.Errorf("stdout: %v", err)
	}
	if err := mock.Run(mock.Options{Stdout: &ok, Transcript: brokenWriter{gone}}); !errors.Is(err, gone) {
		t.Errorf("transcript: %v", err)
	}
	if err := mock.Run(mock.Options{}); err == nil {
		t.Error("no writers: no error")
	}
}
