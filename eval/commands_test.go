package eval

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// readCommands returns the mocks in a file.
func readCommands(t *testing.T, content string) ([]CommandMock, error) {
	t.Helper()
	doc, err := strictyaml.Parse("eval.yaml", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	var e Eval
	doc.DecodeAt(&e.Commands, "command_mocks")
	commandMocks(doc, &e, e.Commands)
	return e.Commands, doc.Err()
}

// The first response whose conditions all hold is given, and each step of a sequence once.
func TestCommandMocks(t *testing.T) {
	mocks, err := readCommands(t, `command_mocks:
- name: az
  responses:
  - {args: [up], environment: {set: x}, stdout: {b: 1.0, a: [<]}}
  - {args: [up], workdir: ./sub/., stdout: in sub}
  - {args: [up], sequence: [{stderr: busy, exit_code: 75}, {stdout: {"ok": true}, delay_ms: 40}]}
  - {args_regex: ["a|b", ""], stdout: else}
  - {args: [], stdout: nothing}
`)
	if err != nil {
		t.Fatal(err)
	}
	player := mocks[0].Play()
	for _, want := range []string{
		`{"args":["up"],"env":{"set":"x"}}: stdout "{\"b\":1.0,\"a\":[\"<\"]}" stderr "" exit 0 response 0 after 0s`,
		`{"args":["up"],"dir":"/workspace/sub"}: stdout "in sub" stderr "" exit 0 response 1 after 0s`,
		`{"args":["up"],"dir":"sub"}: stdout "" stderr "busy" exit 75 response 2 after 0s`,
		`{"args":["b",""]}: stdout "else" stderr "" exit 0 response 3 after 0s`,
		`{"args":["ab",""]}: spent false`,
		`{"args":["b"]}: spent false`,
		`{"args":null}: stdout "nothing" stderr "" exit 0 response 4 after 0s`,
		`{"args":["up"],"env":{"set":""}}: stdout "{\"ok\":true}" stderr "" exit 0 response 2 after 40ms`,
		`{"args":["up"]}: spent true`,
	} {
		asked, _, _ := strings.Cut(want, ": ")
		in, err := cmdmock.ReadInvocation(strings.NewReader(asked))
		if err != nil {
			t.Fatal(err)
		}
		var a cmdmock.Answer
		given, miss := player.Ask("", InvocationMembers(in, "/workspace"))
		got := asked + ": "
		if miss != nil {
			got += fmt.Sprint("spent ", miss.Spent)
		} else if err := json.Unmarshal(given.Value, &a); err != nil {
			t.Fatal(err)
		} else {
			got += fmt.Sprintf("stdout %q stderr %q exit %d response %d after %v", a.Stdout, a.Stderr, a.ExitCode, given.Entry, given.Delay)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWrongCommandMocks(t *testing.T) {
	for response, want := range map[string]string{
		"{args: [], sequence: []}":                   "a sequence of at least one step, or an output",
		"{args: [], sequence: [{}], exit_code: 1}":   "a sequence of at least one step, or an output",
		"{args: [], args_regex: []}":                 "either args or args_regex",
		`{args_regex: ["("]}`:                        `responses[0]: args_regex[0]: error parsing regexp`,
		"{args: [], stdout: 1, fixture: f}":          "has stdout and a fixture",
		"{args: [], sequence: [{fixture: ../f}]}":    "does not lead out",
		"{args: [], sequence: [{}], workdir: ../up}": "a directory in the workspace",
	} {
		_, err := readCommands(t, "command_mocks: [{name: az, responses: ["+response+"]}]")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", response, err, want)
		}
	}
}
