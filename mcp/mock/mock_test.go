package mock

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/sandbox/process"
)

func accounts(t testing.TB) *Server {
	s := &Server{Name: "crm", Tools: map[string]*Tool{"get": {Responses: []*Response{
		{Match: json.RawMessage(`{"id":"A-1","n":1.0}`), Return: json.RawMessage(`{"name":"Contoso"}`)},
		{MatchRegex: map[string]string{"id": "^X-", "n": "^[0-9]+$"}, Error: "no such account"},
		{MatchSchema: json.RawMessage(`{"type":"object","required":["page"]}`), Return: json.RawMessage(`"a page"`)},
		{MatchRegex: map[string]string{"id": "^Y-"}, MatchSchema: json.RawMessage(`{"type":"object","maxProperties":1}`), Return: json.RawMessage(`[1, 2]`)},
	}}}}
	if err := s.Compile(); err != nil {
		t.Fatal(err)
	}
	return s
}

// The first response whose conditions all hold is returned. A call that matches none is
// reported as an error.
func TestAnswer(t *testing.T) {
	s := accounts(t)
	for arguments, want := range map[string]string{
		`{"id":"A-1","n":1}`:    `{"content":[{"text":"{\"name\":\"Contoso\"}","type":"text"}],"structuredContent":{"name":"Contoso"}}`,
		`{"id":"X-7","n":12}`:   `{"content":[{"text":"no such account","type":"text"}],"isError":true}`,
		`{"page":2}`:            `{"content":[{"text":"\"a page\"","type":"text"}]}`,
		`{"id":"Y-1"}`:          `{"content":[{"text":"[1,2]","type":"text"}]}`,
		`{"id":"Y-1","more":1}`: `{"content":[{"text":"no response of the mock matches the call of get with {\"id\":\"Y-1\",\"more\":1}","type":"text"}],"isError":true}`,
		`null`:                  `{"content":[{"text":"no response of the mock matches the call of get with {}","type":"text"}],"isError":true}`,
	} {
		reported := 0
		got, _, _ := s.Play(1, func(error) { reported++ }).handle(evidence.SenderAgent, []byte(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"get","arguments":`+arguments+`}}`))
		if want := `{"jsonrpc":"2.0","id":"1","result":` + want + `}`; string(got) != want {
			t.Errorf("%s is answered\n%s\nwant\n%s", arguments, got, want)
		}
		if (reported == 1) != strings.Contains(want, "no response of the mock") {
			t.Errorf("%s was told %d times", arguments, reported)
		}
	}
}

// What an agent lists in one run and not in another is refused where it is not recorded, and is a miss where
// another page of it is, or where it is the tools.
func TestListedNever(t *testing.T) {
	side := &cassette.Side{Entries: []cassette.Entry{{
		Kind:   match.Matchers{"method": cassette.Matcher("equals", "prompts/list")},
		Match:  match.Matchers{"params.cursor": cassette.Matcher("equals", "2")},
		Answer: &cassette.Answer{Value: json.RawMessage(`{"result":{"prompts":[]}}`)},
	}}}
	if err := side.Compile(); err != nil {
		t.Fatal(err)
	}
	for method, misses := range map[string]int{"server/discover": 0, "resources/list": 0, "resources/templates/list": 0, "prompts/list": 1, "tools/list": 1, "resources/read": 1} {
		missed := 0
		got, _, _ := Played("crm", side).Play(1, func(error) { missed++ }).handle(evidence.SenderAgent, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`))
		if missed != misses || !strings.Contains(string(got), `"error"`) {
			t.Errorf("%s is a miss %d times, and answered with %s", method, missed, got)
		}
	}
	side.Entries[0].Kind = nil // as people write it: then the entry is near to any request
	if err := side.Compile(); err != nil {
		t.Fatal(err)
	}
	missed := 0
	if Played("crm", side).Play(1, func(error) { missed++ }).handle(evidence.SenderAgent, []byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`)); missed > 0 {
		t.Error("server/discover is a miss")
	}
}

// Each call that a response matches gets the next step of its sequence, of each player anew.
func TestSequence(t *testing.T) {
	s := &Server{Name: "crm", Tools: map[string]*Tool{"get": {
		Annotations: json.RawMessage(`{"readOnlyHint":true}`),
		Responses: []*Response{
			{Match: json.RawMessage(`{"id":1}`), Sequence: []*Step{{Error: "busy"}, {Return: json.RawMessage("null"), DelayMS: 40}, {Return: json.RawMessage(`"ok"`)}}},
			{Match: json.RawMessage(`{}`), Return: json.RawMessage("7")},
		},
	}}}
	if err := s.Compile(); err != nil {
		t.Fatal(err)
	}
	if listed, _, _ := s.Play(1, nil).handle(evidence.SenderAgent, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); !strings.Contains(string(listed), `"annotations":{"readOnlyHint":true}`) {
		t.Errorf("it lists %s", listed)
	}
	for range 2 {
		told := 0
		player := s.Play(1, func(error) { told++ })
		for _, want := range []struct {
			id, text string
			delay    time.Duration
		}{
			{"1", `"busy","type":"text"}],"isError":true`, 0}, {"2", `"7"`, 0}, {"1.0", `"null"`, 40 * time.Millisecond}, {"1", `"\"ok\""`, 0}, {"1", `no more steps for the call of get with {\"id\":1}`, 0}, {`"1"`, `"7"`, 0},
		} {
			got, delay, _ := player.handle(evidence.SenderAgent, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","arguments":{"id":`+want.id+`}}}`))
			if !strings.Contains(string(got), want.text) || delay != want.delay {
				t.Errorf("with %s it answers %s after %v, want %s after %v", want.id, got, delay, want.text, want.delay)
			}
		}
		if told != 1 {
			t.Errorf("told %d times of a call without an answer", told)
		}
	}
}

// A delayed answer holds up neither others nor the end.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Name: "s", Tools: map[string]*Tool{"get": {Responses: []*Response{{Sequence: []*Step{{Return: json.RawMessage("1"), DelayMS: 500}, {Return: json.RawMessage("2"), DelayMS: 3600000}}}}}}}
		if err := s.Compile(); err != nil {
			t.Fatal(err)
		}
		session := s.Play(1, func(error) {}).Start(evidence.SenderAgent)
		begun := time.Now()
		const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get"}}` + "\n"
		go func() {
			_, _ = io.WriteString(session.Stdin(), call+call+`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
		}()
		out := bufio.NewScanner(session.Stdout())
		for _, want := range []string{`"id":2`, `"text":"1"`} {
			if out.Scan(); !strings.Contains(out.Text(), want) {
				t.Errorf("it answers %s, want %s", out.Text(), want)
			}
		}
		if took := time.Since(begun); took != 500*time.Millisecond {
			t.Errorf("the answer took %v", took)
		}
		if err := session.Signal(process.Terminate); err != nil {
			t.Fatal(err)
		}
		if _, err := session.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRefused(t *testing.T) {
	for want, responses := range map[string][]*Response{
		`tool "t" has no responses`:                                           nil,
		`responses[0]: set return or error`:                                   {{}},
		`and only one of them`:                                                {{Return: json.RawMessage("1"), Error: "x"}},
		`a sequence of at least one step`:                                     {{Sequence: []*Step{}}},
		`at least one step, or return`:                                        {{Sequence: []*Step{{Error: "x"}}, Error: "x"}},
		`sequence[1]: set return or error`:                                    {{Sequence: []*Step{{Error: "x"}, {DelayMS: 1}}}},
		`sequence[0]: set return or error, and`:                               {{Sequence: []*Step{nil}}},
		`match must be a mapping`:                                             {{Match: json.RawMessage("[1]"), Error: "x"}},
		`match_regex.a: error parsing regexp`:                                 {{MatchRegex: map[string]string{"a": "("}, Error: "x"}},
		`match_schema: it refers to "file:///etc/passwd", which is not in it`: {{MatchSchema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`), Error: "x"}},
	} {
		err := (&Server{Name: "s", Tools: map[string]*Tool{"t": {Responses: responses}}}).Compile()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// Whatever an agent sends, it is answered with JSON on one line, or not at all.
func FuzzHandle(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","arguments":{"id":"X-1","n":1e9}}}`))
	f.Add([]byte(`{"id":null,"method":"tools/list"}`))
	s := accounts(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		got, _, _ := s.Play(1, func(error) {}).handle(evidence.SenderAgent, line)
		if got != nil && (!json.Valid(got) || strings.Contains(string(got), "\n")) {
			t.Errorf("%q is answered with %q", line, got)
		}
	})
}
