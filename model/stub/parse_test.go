package stub_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/model/stub"
)

func TestMistakesInScripts(t *testing.T) {
	for text, want := range map[string]string{
		"models: [a]":                                    "s.yaml:1:1: nothing is scripted; write turns, or conversations with turns",
		"turns: []":                                      "s.yaml:1:1: nothing is scripted; write turns, or conversations with turns",
		"turn: [{say: x}]":                               `s.yaml:1:1: unknown key "turn"; did you mean "turns"?`,
		"turns: [{sya: x}]":                              `s.yaml:1:10: unknown key "sya"; did you mean "say"?`,
		"turns: [{}]":                                    "s.yaml:1:9: turns[0] does nothing; give it one of say, call, calls, fail, stall, cut",
		"turns: [{delay: 1s}]":                           "s.yaml:1:10: turns[0] does nothing; give it one of say, call, calls, fail, stall, cut",
		"turns: [{calls: []}]":                           "s.yaml:1:10: turns[0].calls must not be empty",
		"turns: [{call: {server: a}}]":                   `s.yaml:1:10: missing key "tool"; add turns[0].call.tool`,
		"turns: [{call: {tool: a, arguments: [1]}}]":     "s.yaml:1:26: turns[0].call.arguments must be a mapping",
		"turns: [{call: {tool: a}, calls: [{tool: b}]}]": "s.yaml:1:10: turns[0] has both call and calls; put all into calls",
		"turns: [{say: a, cut: half}]":                   "s.yaml:1:10: turns[0] does more than one thing; write fail, stall and cut as turns of their own, before the answer",
		"turns: [{stall: 1s, cut: half}]":                "s.yaml:1:10: turns[0] does more than one thing; write fail, stall and cut as turns of their own, before the answer",
		"turns: [{cut: off}]":                            `s.yaml:1:15: turns[0].cut must be reset or half, not "off"`,
		"turns: [{stall: 5}]":                            "s.yaml:1:17: turns[0].stall: must be a time such as 500ms",
		"turns: [{say: a, delay: 0s}]":                   `s.yaml:1:25: turns[0].delay: must be a time such as 500ms, above 0, not "0s"`,
		"turns: [{fail: {status: 200}}]":                 "s.yaml:1:25: turns[0].fail.status must be at least 400, not 200",
		"turns: [{fail: {}}]":                            `s.yaml:1:10: missing key "status"; add turns[0].fail.status`,
		"turns: [{say: '{{ x'}]":                         `s.yaml:1:15: turns[0].say: "{{" without "}}"; a literal one is written {{ "{{" }}`,
		"turns: [{say: '{{ }}'}]":                        "s.yaml:1:15: turns[0].say: an empty expression",
		"turns: [{say: '{{ resul.x }}'}]":                `s.yaml:1:15: turns[0].say: {{ resul.x }}: unknown name "resul" (did you mean "result"?); known here: result, results`,
		"turns: [{call: {tool: a, arguments: {b: [{c: '{{ y }}'}]}}}]": `s.yaml:1:46: turns[0].call.arguments.b[0].c: {{ y }}: unknown name "y"; known here: result, results`,
		"turns: [{say: a, usage: {input: 1, output: 1, cached: 2}}]":   "s.yaml:1:10: turns[0].usage: cached is a part of input and must not be more",
		"turns: [{say: a}]\nconversations: [{turns: [{say: b}]}]":      "s.yaml:1:1: turns and conversations are both here; put these turns last under conversations, without when",
		"conversations: [{turns: [{say: b}]}, {turns: [{say: b}]}]":    "s.yaml:1:18: conversations[0] has no when, so those after it are never played; put it last",
		"conversations: [{when: {prompt: a}, turns: [{say: b}]}]":      `s.yaml:1:25: unknown key "prompt"; did you mean "prompt_contains"?`,
		"turns: [{say: a}]\nasides: [{when: {}, say: b}]":              "s.yaml:2:11: asides[0].when has no condition, so nothing else would be played; add one",
		"turns: [{say: a}]\nasides: [{when: {prompt_contains: x}}]":    `s.yaml:2:11: missing key "say"; add asides[0].say`,
		"turns: [{say: a}]\nmodels: ['']":                              "s.yaml:2:10: models[0] must not be empty",
	} {
		_, err := stub.Parse("s.yaml", []byte(text))
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		var problems strictyaml.Errors
		if !errors.As(err, &problems) {
			t.Errorf("%s: an error of another kind: %v", text, err)
		}
		got, _, _ := strings.Cut(err.Error(), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}
