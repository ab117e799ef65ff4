package agents_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
)

func TestMock(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"bolts.txt": "M8 40\n", "none.txt": "", "binary": "a\xff\x00", "long.txt": strings.Repeat("x", 1025)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		in     input.Input
		output string
	}{
		{"nothing else", input.Input{}, ""},
		{"what the task says", input.Input{TaskName: "Bolts", Description: "counts"}, "\nTask: Bolts\nDescription: counts"},
		{"a context", input.Input{Context: json.RawMessage(`{"b":[1,"x"],"a":"two\nlines","c":9007199254740993}`)}, "\nContext:\n  a: two\nlines\n  b: [1,\"x\"]\n  c: 9007199254740993"},
		{"an empty context", input.Input{Context: json.RawMessage(`{}`)}, ""},
		{"files", input.Input{Files: []string{"bolts.txt", "none.txt"}}, "\nAnalyzed 2 file(s):\n  - bolts.txt\nM8 40\n\n  - none.txt"},
		{"a file that is no text", input.Input{Files: []string{"binary"}}, "\nAnalyzed 1 file(s):\n  - binary\na\uFFFD\x00"},
		{"a file that is gone, and one outside", input.Input{Files: []string{"gone", "../" + filepath.Base(dir) + "/bolts.txt"}}, "\nAnalyzed 2 file(s):\n  - gone\n  - ../" + filepath.Base(dir) + "/bolts.txt"},
		{"a long file", input.Input{Files: []string{"long.txt"}}, "\nAnalyzed 1 file(s):\n  - long.txt\n" + strings.Repeat("x", 1024) + "...(truncated)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, events strings.Builder
			test.in.Prompt, test.in.Workspace = "count the bolts", dir
			err := agents.Run(t.Context(), evidence.ExecutorMock, test.in, &stdout, io.Discard, &events)
			if err != nil {
				t.Fatal(err)
			}
			want := "Mock response for: count the bolts" + test.output
			if stdout.String() != want {
				t.Errorf("output %q, want %q", stdout.String(), want)
			}
			if lines := strings.Split(events.String(), "\n"); len(lines) != 3 || lines[0] != `{"type":"user.message","content":"count the bolts"}` {
				t.Errorf("transcript\n%s", events.String())
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
