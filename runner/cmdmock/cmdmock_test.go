package cmdmock_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner/cmdmock"
)

// Whatever a program in the agent's container asks has an answer.
func FuzzReadInvocation(f *testing.F) {
	f.Add(`{"command":"az","args":["a","b"],"env":{"X":"1"},"dir":"/workspace/sub"}`)
	f.Add(`{"args":null}`)
	f.Fuzz(func(t *testing.T, asked string) {
		in, err := cmdmock.ReadInvocation(strings.NewReader(asked))
		if err != nil {
			return
		}
		c := cmdmock.Command{Name: "az", Responses: []cmdmock.Response{
			{Args: []string{"a"}, Environment: map[string]string{"X": "1"}}, {ArgsRegex: []string{".*", "b"}, Workdir: "sub"},
		}}
		if err := c.Compile(); err != nil {
			t.Fatal(err)
		}
		a := c.Answer(in, "/workspace")
		if (a.Response < 0) != (a.ExitCode == cmdmock.ExitUnmatched) {
			t.Errorf("%+v to %q", a, asked)
		}
	})
}
