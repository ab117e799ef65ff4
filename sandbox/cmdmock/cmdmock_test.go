package cmdmock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// Each invocation that a response matches gets the next step of its sequence.
func TestSequence(t *testing.T) {
	c := cmdmock.Command{Name: "az", Responses: []cmdmock.Response{
		{Args: []string{"up"}, Sequence: []cmdmock.Step{
			{Output: cmdmock.Output{Stderr: "busy", ExitCode: 75}},
			{Output: cmdmock.Output{Stdout: json.RawMessage(`{"ok": true}`)}, DelayMS: 40},
		}},
		{ArgsRegex: []string{".*"}, Output: cmdmock.Output{Stdout: json.RawMessage(`"else"`)}},
	}}
	if err := c.Compile(); err != nil {
		t.Fatal(err)
	}
	given := map[int]int{}
	for _, want := range []string{
		`up: stdout "" stderr "busy" exit 75 response 0 after 0s`, `down: stdout "else" stderr "" exit 0 response 1 after 0s`,
		`up: stdout "{\"ok\":true}" stderr "" exit 0 response 0 after 40ms`,
		`up: stdout "" stderr "waza: the sequence of the mock of az has no more steps for the arguments [\"up\"]; add one to command_mocks\n" exit 127 response -1 after 0s`,
	} {
		arg, _, _ := strings.Cut(want, ":")
		a := c.Answer(cmdmock.Invocation{Command: "az", Args: []string{arg}}, "/workspace", func(i int) int { return given[i] })
		given[a.Response]++
		if got := fmt.Sprintf("%s: stdout %q stderr %q exit %d response %d after %v", arg, a.Stdout, a.Stderr, a.ExitCode, a.Response, a.Delay); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, wrong := range []cmdmock.Response{{Sequence: []cmdmock.Step{}}, {Sequence: []cmdmock.Step{{}}, Output: cmdmock.Output{ExitCode: 1}}} {
		wrong.Args = []string{}
		if err := (&cmdmock.Command{Name: "az", Responses: []cmdmock.Response{wrong}}).Compile(); err == nil || !strings.Contains(err.Error(), "a sequence of at least one step, or an output") {
			t.Errorf("%+v gives %v", wrong, err)
		}
	}
}

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
		a := c.Answer(in, "/workspace", func(int) int { return 0 })
		if (a.Response < 0) != (a.ExitCode == cmdmock.ExitUnmatched) {
			t.Errorf("%+v to %q", a, asked)
		}
	})
}
