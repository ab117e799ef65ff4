package capture_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

type edgeCase struct {
	Kind   string
	Name   string
	Frames []json.RawMessage
	Expect json.RawMessage

	Expected json.RawMessage
	Got      json.RawMessage
	Mode     string
	Why      string

	Reported string
	Servers  map[string][]string
}

func edgeCases(t *testing.T, kind string) []edgeCase {
	t.Helper()
	file, err := os.Open("testdata/edge_cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []edgeCase
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c edgeCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Kind == kind {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no case of kind %s", kind)
	}
	return all
}

func TestEdgeCasesOfTheWire(t *testing.T) {
	for _, test := range edgeCases(t, "wire_outcome") {
		t.Run(test.Name, func(t *testing.T) {
			var want struct {
				Calls     int
				Outcome   evidence.Outcome
				Outcomes  []evidence.Outcome
				Arguments json.RawMessage
			}
			if err := json.Unmarshal(test.Expect, &want); err != nil {
				t.Fatal(err)
			}
			for want.Outcome != "" && len(want.Outcomes) < want.Calls {
				want.Outcomes = append(want.Outcomes, want.Outcome)
			}
			got := calls(t, wire(t, test.Frames)...)
			var outcomes []evidence.Outcome
			for _, call := range got.Calls {
				outcomes = append(outcomes, call.Outcome)
				if want.Arguments != nil && !jsontext.Same(want.Arguments, call.Arguments) {
					t.Errorf("arguments %s; want %s", call.Arguments, want.Arguments)
				}
			}
			if !cmp.Equal(outcomes, want.Outcomes) {
				t.Errorf("outcomes %v; want %v", outcomes, want.Outcomes)
			}
		})
	}
}

// wire turns a case's messages into frames. The server sent the answers and the
// one request that only servers make; the client sent the rest.
func wire(t *testing.T, messages []json.RawMessage) []evidence.Frame {
	t.Helper()
	var frames []evidence.Frame
	for _, raw := range messages {
		first := raw
		if raw[0] == '[' {
			var batch []json.RawMessage
			if err := json.Unmarshal(raw, &batch); err != nil {
				t.Fatal(err)
			}
			first = batch[0]
		}
		var fields struct {
			Method  string
			Session string `json:"_session"`
		}
		if err := json.Unmarshal(first, &fields); err != nil {
			t.Fatal(err)
		}
		f := on(fields.Session, up(string(raw)))
		if fields.Method == "" || fields.Method == "sampling/createMessage" {
			f.Dir = evidence.ToClient
		}
		frames = append(frames, f)
	}
	return frames
}

func TestEqualEdgeCases(t *testing.T) {
	for _, test := range edgeCases(t, "args") {
		if test.Mode != "exact" {
			continue
		}
		t.Run(test.Why, func(t *testing.T) {
			want := string(test.Expect) == "true"
			if got := jsontext.Same(test.Expected, test.Got); got != want {
				t.Errorf("Equal(%s, %s) = %v", test.Expected, test.Got, got)
			}
		})
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, `{ "b":[2.0], "a":10e-1 }`, true},
		{`-0`, `0`, true},
		{`0.10`, `1e-1`, true},
		{`1e400`, `10e399`, true},
		{`1e99999999999999999999`, `1e99999999999999999999`, true},
		{`1e99999999999999999999`, `1`, false},
		{`12`, `120`, false},
		{`-5`, `5`, false},
		{`null`, ``, false},
		{``, ``, true},
		{`{}`, `[]`, false},
		{`{"a":null}`, `{}`, false},
		{`"\u00e9"`, `"é"`, true},
		{`oops`, `oops`, false},
		{`{} {}`, `{}`, false},
		{`["a","b"]`, `["a,b"]`, false},
	} {
		if got := jsontext.Same(json.RawMessage(test.a), json.RawMessage(test.b)); got != test.want {
			t.Errorf("Equal(%s, %s) = %v", test.a, test.b, got)
		}
	}
}
