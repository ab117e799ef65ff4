package cassette

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/grading/match"
)

// call is a request to a server.
func call(tool, id string) func() map[string]any {
	return func() map[string]any { return map[string]any{"tool": tool, "arguments": map[string]any{"id": id}} }
}

// chosen returns the kinds of the faults of calls, each a tool and an id.
func chosen(t *testing.T, trial int, calls string, all ...Fault) string {
	t.Helper()
	for i := range all {
		if all[i].times == 0 {
			if _, err := all[i].Compile(); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := NewFaults(all, "task", trial).Of(Servers, "s")
	var said []string
	for one := range strings.FieldsSeq(calls) {
		if f := next(call(one[:1], one[1:])); f != nil {
			said = append(said, string(f.Kind))
		} else {
			said = append(said, "-")
		}
	}
	return strings.Join(said, " ")
}

func TestFaults(t *testing.T) {
	drop, slow := Fault{Server: "s", Kind: "drop"}, Fault{Server: "s", Kind: "slow"}
	nth, tool, args := drop, drop, slow
	nth.Nth, tool.Tool, args.Match = 2, "b", match.Matchers{"arguments.id": []byte(`{"regex":"^[12]$"}`)}
	for _, test := range []struct {
		want string
		all  []Fault
	}{
		{"drop drop drop drop", []Fault{drop, slow}},
		{"- drop - -", []Fault{nth}},
		{"- - drop -", []Fault{tool}},
		{"slow - drop slow", []Fault{tool, args}},
		{"slow drop slow slow", []Fault{nth, slow}},
	} {
		if got := chosen(t, 1, "a1 a3 b1 a2", test.all...); got != test.want {
			t.Errorf("%v: %s, want %s", test.all, got, test.want)
		}
	}
	if NewFaults([]Fault{drop}, "task", 1).Of(Servers, "other") != nil || NewFaults([]Fault{drop}, "task", 1).Of(Models, "s") != nil {
		t.Error("another side has faults")
	}
}

// The same trial has the same faults, another trial or seed has others, and as many as asked for.
func TestProbability(t *testing.T) {
	some, calls := Fault{Server: "s", Kind: "drop", Probability: 0.3}, strings.Repeat("a1 ", 1000)
	got := chosen(t, 1, calls, some)
	if n := strings.Count(got, "drop"); n < 230 || n > 370 {
		t.Errorf("%d of 1000 calls have the fault", n)
	}
	seeded := some
	seeded.Seed = 7
	if got != chosen(t, 1, calls, some) || got == chosen(t, 2, calls, some) || got == chosen(t, 1, calls, seeded) {
		t.Error("faults do not depend on trial and seed alone")
	}
}

// An entry with a fault gives no answer; the next one that fits does.
func TestFaultEntry(t *testing.T) {
	side, err := readSide("servers/s.yaml", []byte(`
entries:
- {kind: {tool: a}, match: {arguments.id: "1"}, times: 1, fault: drop}
- {kind: {tool: a}, answer: {value: {result: {}}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if given, miss := side.Play().Ask("", call("a", "1")()); miss != nil || given.Entry != 1 {
		t.Errorf("%+v, %v", given, miss)
	}
	if got := chosen(t, 1, "a2 b1 a1 a1", side.Faults(Servers, "s")...); got != "- - drop -" {
		t.Error(got)
	}
	for entry, want := range map[string]string{
		`{fault: dorp}`:                                   `not "dorp"; did you mean "drop"?`,
		`{fault: drop, answer: {value: {}}}`:              "entries[0]: an entry with a fault has kind, match and times alone",
		`{fault: drop, match: {state: {paid: true}}}`:     "entries[0].match: a fault has no conditions on the state",
		`{fault: drop, match: {arguments: {regex: "("}}}`: "entries[0].match",
	} {
		if _, err := readSide("servers/s.yaml", []byte("entries: ["+entry+"]"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func TestFaultMistakes(t *testing.T) {
	for key, f := range map[string]Fault{
		" needs server or model":               {Kind: "drop"},
		" needs server or model, one of them":  {Server: "s", Model: "m", Kind: "drop"},
		"tool has a tool":                      {Model: "m", Tool: "t", Kind: "cut"},
		"match has match":                      {Model: "m", Match: match.Matchers{}, Kind: "cut"},
		"fault is cut, and of a server":        {Server: "s", Kind: "cut"},
		"fault is drop, and of a model":        {Model: "m", Kind: "drop"},
		"nth has nth and probability":          {Server: "s", Kind: "drop", Nth: 1, Probability: 0.5},
		"seed has a seed":                      {Server: "s", Kind: "drop", Seed: 1},
		"delay_ms has delay_ms, which is for ": {Server: "s", Kind: "drop", DelayMS: 1},
		"retry_after has retry_after":          {Model: "m", Kind: "cut", RetryAfter: 1},
		"message has a message":                {Server: "s", Kind: "drop", Message: "x"},
		"match match.x":                        {Server: "s", Kind: "drop", Match: match.Matchers{"x": []byte(`{"regex":"("}`)}},
	} {
		at, err := f.Compile()
		if got := fmt.Sprint(at, " ", err); !strings.HasPrefix(got, key) {
			t.Errorf("%+v: %s, want %s", f, got, key)
		}
	}
}
