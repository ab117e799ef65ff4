package mock

import (
	"encoding/json"
	"strings"
	"testing"
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
		`{"page":2}`:            `{"content":[{"text":"a page","type":"text"}]}`,
		`{"id":"Y-1"}`:          `{"content":[{"text":"[1,2]","type":"text"}]}`,
		`{"id":"Y-1","more":1}`: `{"content":[{"text":"no response of the mock matches the call of get with {\"id\":\"Y-1\",\"more\":1}","type":"text"}],"isError":true}`,
		`null`:                  `{"content":[{"text":"no response of the mock matches the call of get with {}","type":"text"}],"isError":true}`,
	} {
		reported := 0
		got := s.handle([]byte(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"get","arguments":`+arguments+`}}`), func(string) { reported++ })
		if want := `{"jsonrpc":"2.0","id":"1","result":` + want + `}`; string(got) != want {
			t.Errorf("%s is answered\n%s\nwant\n%s", arguments, got, want)
		}
		if (reported == 1) != strings.Contains(want, "no response of the mock") {
			t.Errorf("%s was told %d times", arguments, reported)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, responses := range map[string][]*Response{
		`tool "t" has no responses`:             nil,
		`responses[0]: set return or error`:     {{}},
		`set only one of return and error`:      {{Return: json.RawMessage("1"), Error: "x"}},
		`match must be a mapping`:               {{Match: json.RawMessage("[1]"), Error: "x"}},
		`match_regex.a: error parsing regexp`:   {{MatchRegex: map[string]string{"a": "("}, Error: "x"}},
		`match_schema: "file:///etc/passwd" is`: {{MatchSchema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`), Error: "x"}},
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
		got := s.handle(line, func(string) {})
		if got != nil && (!json.Valid(got) || strings.Contains(string(got), "\n")) {
			t.Errorf("%q is answered with %q", line, got)
		}
	})
}
