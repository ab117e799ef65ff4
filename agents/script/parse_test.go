package script_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/script"
)

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name, script, want string
	}{
		{"nothing", `null`, `script: must be a list`},
		{"empty", `[]`, `script: needs at least one step`},
		{"not a list", `{say: hi}`, `script: must be a list`},
		{"not an object", `[say]`, `script[0]: must be an object`},
		{"unknown step", `[{cal: {}}]`, `script[0]: unknown step "cal"; did you mean "call"?`},
		{"no step", `[{as: x}]`, `script[0]: needs exactly one of call, tools, read, write, run, say, claim, sleep, await, loop, fail`},
		{"tell is no boolean", `[{call: {server: s, tool: t, tell: "no"}}]`, `script[0].call.tell: must be true or false`},
		{"two steps", `[{say: a, fail: b}]`, `script[0]: needs exactly one of call, tools, read, write, run, say, claim, sleep, await, loop, fail`},
		{"unknown key in a loop", `[{say: a}, {loop: {times: 2, steps: [{call: {servr: s, server: s, tool: t}}]}}]`,
			`script[1].loop.steps[0].call.servr: unknown key (did you mean "server"?)`},
		{"unknown key far from all", `[{read: {path: a, shout: 1}}]`, `script[0].read.shout: unknown key`},
		{"missing key", `[{call: {server: s}}]`, `script[0].call: needs the key "tool"`},
		{"empty tool", `[{call: {server: s, tool: ""}}]`, `script[0].call.tool: must not be empty`},
		{"wrong type", `[{read: {path: 3}}]`, `script[0].read.path: must be a string`},
		{"null", `[{say: null}]`, `script[0].say: must be a string`},
		{"arguments", `[{call: {server: s, tool: t, arguments: [1]}}]`, `script[0].call.arguments: must be an object`},
		{"expect", `[{call: {server: s, tool: t, expect: toolerror}}]`,
			`script[0].call.expect: must be one of ok, tool_error, protocol_error, transport_error, timeout, any (did you mean "tool_error"?)`},
		{"timeout", `[{call: {server: s, tool: t, timeout: 3}}]`, `script[0].call.timeout: must be a length of time such as "100ms"`},
		{"negative sleep", `[{sleep: -1s}]`, `script[0].sleep: must be a length of time such as "100ms" or "2s"`},
		{"no program", `[{run: {command: []}}]`, `script[0].run.command: must be a list of a program and its arguments`},
		{"exit", `[{run: {command: [a], expect_exit: 256}}]`, `script[0].run.expect_exit: must be from 0 to 255`},
		{"exit word", `[{run: {command: [a], expect_exit: some}}]`, `script[0].run.expect_exit: must be an exit code or "any"`},
		{"loop of neither", `[{loop: {steps: [{say: a}]}}]`, `script[0].loop: needs exactly one of "times" and "over"`},
		{"loop of both", `[{loop: {times: 1, over: [1], steps: [{say: a}]}}]`, `script[0].loop: needs exactly one of "times" and "over"`},
		{"too many times", `[{loop: {times: 10001, steps: [{say: a}]}}]`, `script[0].loop.times: must be from 0 to 10000`},
		{"over an object", `[{loop: {over: {a: 1}, steps: [{say: a}]}}]`, `script[0].loop.over: must be a list or an expression`},
		{"loop without steps", `[{loop: {times: 1}}]`, `script[0].loop: needs the key "steps"`},
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
		{"two mistakes", `[{sey: a}, {read: {}}]`, "script[0]: unknown step \"sey\"; did you mean \"say\"?\n" + `script[1].read: needs the key "path"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseYAML(t, test.script)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			var syntax *script.SyntaxError
			if !errors.As(err, &syntax) || !strings.HasPrefix(test.want, syntax.Path+": ") {
				t.Errorf("%v is no SyntaxError with the path", err)
			}
		})
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
		`null`, `[`, `[{}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := script.Parse(raw)
		if err == nil && !json.Valid(raw) {
			t.Errorf("took %q, which is not JSON", raw)
		}
		var syntax *script.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || !strings.HasPrefix(syntax.Path, "script")) {
			t.Errorf("error without a path: %v", err)
		}
	})
}
