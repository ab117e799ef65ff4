package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name, script, want string
	}{
		{"nothing", `null`, `script has no value; give it a list or remove the key`},
		{"empty", `[]`, `script needs at least one step`},
		{"not a list", `{say: hi}`, `script must be a list, not a mapping`},
		{"not an object", `[say]`, `script[0] must be a mapping, not the string "say"`},
		{"unknown step", `[{cal: {}}]`, `unknown key "cal"; did you mean "call"?`},
		{"no step", `[{as: x}]`, `script[0] needs exactly one of call, tools, read, write, run, say, claim, sleep, await, loop, fail`},
		{"tell is no boolean", `[{call: {server: s, tool: t, tell: "no"}}]`, `script[0].call.tell must be true or false, not the string "no"`},
		{"two steps", `[{say: a, fail: b}]`, `script[0] needs exactly one of call, tools, read, write, run, say, claim, sleep, await, loop, fail`},
		{"unknown key in a loop", `[{say: a}, {loop: {times: 2, steps: [{call: {servr: s, server: s, tool: t}}]}}]`,
			`unknown key "servr"; did you mean "server"?`},
		{"unknown key far from all", `[{read: {path: a, shout: 1}}]`, `unknown key "shout"; known here: path`},
		{"missing key", `[{call: {server: s}}]`, `missing key "tool"; add script[0].call.tool`},
		{"empty tool", `[{call: {server: s, tool: ""}}]`, `script[0].call.tool must not be empty`},
		{"wrong type", `[{read: {path: 3}}]`, `script[0].read.path: must be a string`},
		{"null", `[{say: null}]`, `script[0].say: must be a string`},
		{"arguments", `[{call: {server: s, tool: t, arguments: [1]}}]`, `script[0].call.arguments must be a mapping, or an expression for one`},
		{"expect", `[{call: {server: s, tool: t, expect: toolerror}}]`,
			`script[0].call.expect must be ok, tool_error, protocol_error, transport_error, timeout or any, not "toolerror"; did you mean "tool_error"?`},
		{"timeout", `[{call: {server: s, tool: t, timeout: 3}}]`, `script[0].call.timeout: must be a time such as 500ms`},
		{"negative sleep", `[{sleep: -1s}]`, `script[0].sleep: must be a time such as 500ms, above 0, not "-1s"`},
		{"no program", `[{run: {command: []}}]`, `script[0].run.command must not be empty`},
		{"exit", `[{run: {command: [a], expect_exit: 256}}]`, `script[0].run.expect_exit: must be an exit code from 0 to 255, or "any"`},
		{"exit word", `[{run: {command: [a], expect_exit: some}}]`, `script[0].run.expect_exit: must be an exit code from 0 to 255, or "any"`},
		{"loop of neither", `[{loop: {steps: [{say: a}]}}]`, `script[0].loop needs exactly one of "times" and "over"`},
		{"loop of both", `[{loop: {times: 1, over: [1], steps: [{say: a}]}}]`, `script[0].loop needs exactly one of "times" and "over"`},
		{"too many times", `[{loop: {times: 10001, steps: [{say: a}]}}]`, `script[0].loop.times must be at most 10000, not 10001`},
		{"over an object", `[{loop: {over: {a: 1}, steps: [{say: a}]}}]`, `script[0].loop.over must be a list, or an expression for one`},
		{"loop without steps", `[{loop: {times: 1}}]`, `missing key "steps"; add script[0].loop.steps`},
		{"name of nothing", `[{say: a, as: x}]`, `script[0].as: say gives no value to name`},
		{"name taken", `[{read: {path: a}, as: x}, {read: {path: a}, as: x}]`, `script[1].as: the name "x" is taken`},
		{"name reserved", `[{read: {path: a}, as: prompt}]`, `script[0].as: the name "prompt" is taken`},
		{"name of a keyword", `[{read: {path: a}, as: "true"}]`,
			`script[0].as: "true" is not a name: letters, digits and _, no leading digit, no word of the expression language`},
		{"unknown name", `[{read: {path: a}, as: list}, {say: "{{ lst.text }}"}]`,
			`script[1].say: {{ lst.text }}: unknown name "lst" (did you mean "list"?); known here: context, list, prompt`},
		{"unknown name deep in arguments", `[{call: {server: s, tool: t, arguments: {a: [{b: "{{ x + 1 }}"}]}}}]`,
			`script[0].call.arguments.a[0].b: {{ x + 1 }}: unknown name x`},
		{"name of a loop after it", `[{loop: {times: 1, as: i, steps: [{read: {path: a}, as: x}]}}, {say: "{{ i }}{{ x }}"}]`,
			`script[1].say: {{ i }}: unknown name "i"; known here: context, prompt`},
		{"name before its step", `[{read: {path: "{{ x }}"}, as: x}]`, `script[0].read.path: {{ x }}: unknown name "x"; known here: context, prompt`},
		{"open expression", `[{say: "{{ prompt"}]`, `script[0].say: "{{" without "}}"; a literal one is written {{ "{{" }}`},
		{"empty expression", `[{say: "{{ }}"}]`, `script[0].say: an empty expression`},
		{"bad expression", `[{say: "{{ prompt + }}"}]`, `script[0].say: {{ prompt + }}: unexpected token EOF`},
		{"clock", `[{say: "{{ now() }}"}]`, `script[0].say: {{ now() }}: unknown name now`},
		{"two mistakes", `[{sey: a}, {read: {}}]`, "unknown key \"sey\"; did you mean \"say\"?\n" + `missing key "path"; add script[1].read.path`},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc, err := strictyaml.Parse("task.yaml", []byte("script:\n  "+test.script))
			if err != nil {
				t.Fatal(err)
			}
			script.Check(doc, "script")
			var got []string
			all, _ := errors.AsType[strictyaml.Errors](doc.Err())
			for _, one := range all {
				got = append(got, one.Message)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
			if _, err := parseYAML(t, test.script); err == nil {
				t.Error("no error without the document")
			}
		})
	}
}

// TestCheckPlaces checks that mistakes have their places in the file.
func TestCheckPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"script:\n  - say: a\n  - say: '{{ b }}'":                     "3:10: script[1].say: {{ b }}: unknown name \"b\"; known here: context, prompt",
		"script:\n  - read: {path: a}\n    as: prompt":                "3:9: script[0].as: the name \"prompt\" is taken",
		"script:\n  - call: !x {}":                                    "2:11: YAML tags such as !x are not supported; write the value without it",
		"script:\n  - run: {command: !x [a]}":                         "2:20: YAML tags such as !x are not supported; write the value without it",
		"script: !x []":                                               "1:9: YAML tags such as !x are not supported; write the value without it",
		"script:\n  - run:\n      command:\n        - a\n        - 3": "5:11: script[0].run.command[1]: must be a string",
	} {
		doc, err := strictyaml.Parse("t", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		script.Check(doc, "script")
		all, _ := errors.AsType[strictyaml.Errors](doc.Err())
		if line, _, _ := strings.Cut(fmt.Sprint(doc.Err()), "\n"); len(all) != 1 || line != "t:"+want {
			t.Errorf("%s: %v, want %s", text, doc.Err(), want)
		}
	}
}

// TestParseLongScript checks that a script, in which aliases are written out, may be larger than
// a file.
func TestParseLongScript(t *testing.T) {
	raw := `[{"say":"` + strings.Repeat("<", 2*strictyaml.MaxBytes) + `"}]`
	if _, err := script.Parse([]byte(raw)); err != nil {
		t.Error(err)
	}
}

func TestParseTakesBuiltinsAsNames(t *testing.T) {
	if _, err := parseYAML(t, `[{read: {path: a}, as: count}, {say: "{{ count.text }}"}]`); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`[{"say":"{{ prompt }}"}]`,
		`[{"call":{"server":"s","tool":"t","arguments":{"id":9007199254740993,"x":["{{ context.a[0] }}"]}},"as":"r"},{"say":"{{ r.json?.a ?? \"}}\" }}"}]`,
		`[{"loop":{"over":"{{ 1..3 }}","as":"i","steps":[{"write":{"path":"{{ i }}","content":""}}]}}]`,
		`[{"run":{"command":["sh","-c","true"],"expect_exit":"any"}},{"sleep":"1ms"},{"fail":"no"}]`,
		`[{"claim":{"tool":"t","result":[1,null,"{{"]}}]`,
		`[{"tools":{"server":"s"},"as":"let"}]`,
		`null`, `[`, `[{}]`, `[{"say":"a",}] // b`, `[{"call":{"server":"s","server":"s"}}]`,
		`[call: !x {}, run: {command: []}, {<<: {loop: {times: !x 3, steps: !x []}}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := script.Parse(raw)
		if err == nil && !json.Valid(raw) {
			t.Errorf("took %q, which is not JSON", raw)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "script") {
			t.Errorf("an error that does not name the script: %v", err)
		}
		doc, inYAML := strictyaml.Parse("f", append([]byte("script: "), raw...))
		if inYAML != nil {
			return
		}
		if script.Check(doc, "script"); err == nil && doc.Err() != nil {
			t.Errorf("%q is a mistake in YAML only: %v", raw, doc.Err())
		}
	})
}
