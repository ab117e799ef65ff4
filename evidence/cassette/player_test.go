package cassette

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// side reads a side.
func side(t testing.TB, text string) *Side {
	t.Helper()
	doc, err := strictyaml.Parse("side", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &Side{}
	if doc.Decode(s); doc.Err() != nil {
		t.Fatal(doc.Err())
	}
	if err := s.Compile(); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask compares what a new player of a side answers to requests, each in one line with its answer.
func ask(t *testing.T, s *Side, lines ...string) {
	t.Helper()
	p := s.Play()
	for _, line := range lines {
		asked, want, _ := strings.Cut(line, " -> ")
		request, err := jsontext.Parse([]byte(asked))
		if err != nil {
			t.Fatal(err)
		}
		given, miss := p.Ask("", request.(map[string]any))
		got := string(given.Value)
		if given.Delay > 0 {
			got += " after " + given.Delay.String()
		}
		if miss != nil {
			got = miss.Error()
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", asked, got, want)
		}
	}
}

const recorded = `
entries:
- {kind: {tool: a}, match: {arguments: {equals: {n: 1}}}, times: 1, answer: {value: one}}
- {kind: {tool: b}, match: {arguments: {equals: {n: 1}}}, times: 1, answer: {value: b}}
- {kind: {tool: a}, match: {arguments: {equals: {n: 2}}}, times: 1, answer: {value: two}}
- {kind: {tool: a}, match: {arguments: {equals: {n: 1}}}, times: 1, answer: {value: one again, delay_ms: 20}}
`

// Repeats of a request get the answers of its repeats in their order; one more is a miss, and so is
// what was not asked before, with the nearest entry.
func TestByMatch(t *testing.T) {
	ask(t, side(t, recorded),
		`{"tool":"a","arguments":{"n":2.0}} -> "two"`,
		`{"tool":"a","arguments":{"n":1}} -> "one"`,
		`{"tool":"a","arguments":{"n":1,"m":{}}} -> no entry answers {"arguments":{"m":{},"n":1},"tool":"a"}; the nearest is entries[0], with arguments.m: {}, expected nothing; find: sequence would give it entries[3]`,
		`{"tool":"a","arguments":{"n":1}} -> "one again" after 20ms`,
		`{"tool":"a","arguments":{"n":1}} -> no entry answers {"arguments":{"n":1},"tool":"a"}: entries[0] has given all its answers`,
		`{"tool":"c"} -> no entry answers {"tool":"c"}, nor anything of its kind`,
		`{"tool":"b","arguments":{"n":1}} -> "b"`,
	)
}

// In sequence, the next answer of the same kind is given, whatever is asked.
func TestInSequence(t *testing.T) {
	ask(t, side(t, "find: sequence\n"+recorded),
		`{"tool":"a","arguments":{"n":7}} -> "one"`,
		`{"tool":"a"} -> "two"`,
		`{"tool":"b"} -> "b"`,
		`{"tool":"a","arguments":{"n":2}} -> "one again" after 20ms`,
		`{"tool":"a","arguments":{"n":2}} -> no entry answers {"arguments":{"n":2},"tool":"a"}: entries[2] has given all its answers`,
	)
}

// A list of answers ends with its last, and lets nothing after it answer.
func TestAnswers(t *testing.T) {
	s := side(t, `
entries:
- {match: {"arguments.set": {regex: "^[0-9]+$"}}, answers: [{value: 1}, {value: 2}]}
- {answer: {value: any}}
`)
	for range 2 {
		ask(t, s,
			`{"arguments":{"set":17}} -> 1`,
			`{"arguments":{"set":"x"}} -> "any"`,
			`{"arguments":{"set":"17"}} -> 2`,
			`{"arguments":{"set":"17"}} -> no entry answers {"arguments":{"set":"17"}}: entries[0] has given all its answers; find: sequence would give it entries[1]`,
			`{} -> "any"`,
		)
	}
}

// Answers set the state that conditions are on, and entries may wait for others.
func TestState(t *testing.T) {
	ask(t, side(t, `
state: {paid: false}
entries:
- {match: {do: ship, state: {paid: true}}, answer: {value: shipped}}
- {match: {do: refund}, after: payment, answer: {value: refunded}}
- {name: payment, match: {do: pay}, set: {paid: true}, answer: {value: thanks}}
`),
		`{"do":"ship"} -> no entry answers {"do":"ship"}; the nearest is entries[0], with state.paid: false, expected true; find: sequence would give it entries[0]`,
		`{"do":"refund"} -> no entry answers {"do":"refund"}: entries[1] is given only after another; find: sequence would give it entries[0]`,
		`{"do":"pay"} -> "thanks"`,
		`{"do":"ship"} -> "shipped"`,
		`{"do":"refund"} -> "refunded"`,
	)
}

func TestRefused(t *testing.T) {
	one := func(rest string) string { return "{entries: [{" + rest + "}]}" }
	for text, want := range map[string]string{
		one("name: x"):     "entries[0]: give it an answer, or a list of answers",
		one("answers: []"): "entries[0]: give it an answer",
		one("answer: {value: 1}, answers: [{value: 1}]"):                            "entries[0]: give it an answer",
		one("times: 2, answers: [{value: 1}]"):                                      "entries[0].times: a list of answers has",
		one("after: y, answer: {value: 1}"):                                         `entries[0].after: no entry has the name "y"`,
		one("name: x, after: x, answer: {value: 1}"):                                "entries[0].after: it waits for itself",
		one("set: {x: 1}, answer: {value: 1}"):                                      `entries[0].set: "x" is not in the side's state`,
		one(`match: {a: {b: {regex: "("}}}, answer: {value: 1}`):                    "entries[0].match.a.b.regex: missing closing )",
		one(`kind: {a: {set: 1}}, answer: {value: 1}`):                              "entries[0].kind.a.set: must be a list",
		"{entries: [{name: x, answer: {value: 1}}, {name: x, answer: {value: 1}}]}": `entries[1]: the name "x" appears twice`,
		"{entries: [{name: x, after: y, answer: {value: 1}}, {name: y, after: x, answer: {value: 1}}, {after: x, answer: {value: 1}}]}": "entries[0].after: it waits for itself",
	} {
		doc, err := strictyaml.Parse("side", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var s Side
		doc.Decode(&s)
		if err := s.Compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}

// With template, answers and state are of what is asked, with the digits of numbers.
func TestTemplate(t *testing.T) {
	s := side(t, `
state: {paid: 0}
entries:
- {kind: {tool: pay}, template: true, set: {paid: "{{ state.paid + arguments.cents }}"}, answer: {value: {id: "{{ arguments.id }}", text: "{{ arguments.id }} for {{ arguments.note.to[0] }}, {{ state.paid }} before"}}}
- {kind: {tool: sum}, template: true, answer: {value: "{{ state.paid }}"}}
- {kind: {tool: plain}, answer: {value: "{{ state.paid }}"}}
`)
	ask(t, s,
		`{"tool":"pay","arguments":{"id":9007199254740993,"cents":5,"note":"{\"to\":[\"Ann\"]}"}} -> {"id":9007199254740993,"text":"9007199254740993 for Ann, 0 before"}`,
		`{"tool":"pay","arguments":{"id":2,"cents":1}} -> no entry answers {"arguments":{"cents":1,"id":2},"tool":"pay"}: entries[0] would, but for {{ arguments.note.to[0] }}: arguments has no "note"; it has "cents", "id"`,
		`{"tool":"pay","arguments":{"id":2,"cents":2,"note":{"to":["Bob"]}}} -> {"id":2,"text":"2 for Bob, 5 before"}`,
		`{"tool":"sum"} -> 7`,
		`{"tool":"plain"} -> "{{ state.paid }}"`,
	)
	wrong := &Side{Entries: []Entry{{Template: true, Answer: &Answer{Value: []byte(`["{{ argument.id }}"]`)}}}}
	want := `entries[0].value[0]: {{ argument.id }}: unknown name "argument" (did you mean "arguments"?); known here: args, arguments, dir, env, method, model, params, prompt, result, results, state, system, tool, tools`
	if err := wrong.Compile(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// What was given is counted for each thread by itself.
func TestThreads(t *testing.T) {
	p := side(t, `{entries: [{times: 1, answer: {value: 1}}, {answer: {value: 2}}]}`).Play()
	for _, step := range []struct{ thread, want string }{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"b", "2"}, {"c", "1"}} {
		if given, miss := p.Ask(step.thread, map[string]any{}); miss != nil || string(given.Value) != step.want {
			t.Errorf("%s: %s, %v", step.thread, given.Value, miss)
		}
	}
}

// Expressions that may take any time or memory are refused.
func TestBoundedExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		`repeat("x", 1000000)`:               "repeat is not allowed here",
		`"x" | repeat(9)`:                    "repeat is not allowed here",
		`reduce(args, #acc + #acc, "x")`:     "a loop is not allowed here",
		`len(1..999999)`:                     "a range is not allowed here",
		`let a = tool + tool; a + a`:         "let is not allowed here",
		`tool` + strings.Repeat(`+tool`, 50): "more than 64 parts is not allowed here",
		`upper(tool) + string(len(args))`:    "",
	} {
		s := &Side{Entries: []Entry{{Template: true, Answer: &Answer{Value: json.RawMessage(jsontext.Encode("{{ " + expression + " }}"))}}}}
		if err := s.Compile(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
}

// A state that is put into itself again and again does not fill the memory.
func TestFilledIsBounded(t *testing.T) {
	p := side(t, "state: {x: "+strings.Repeat("x", 512<<10)+"}\nentries: [{template: true, set: {x: '{{ state.x }}{{ state.x }}'}, answer: {value: 1}}]").Play()
	for range 3 {
		if _, miss := p.Ask("", map[string]any{}); miss != nil {
			t.Fatal(miss)
		}
	}
	if _, miss := p.Ask("", map[string]any{}); miss == nil || miss.Error() != "no entry answers {}: entries[0] would, but for more than 8 MiB of text" {
		t.Error(miss)
	}
}
