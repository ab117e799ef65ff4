package eval

import (
	"cmp"
	"encoding/json"
	"iter"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// scriptSteps yields the steps of a script with their paths in it. The steps of a loop follow the loop.
func scriptSteps(script json.RawMessage) iter.Seq2[strictyaml.Path, []byte] {
	return func(yield func(strictyaml.Path, []byte) bool) {
		var walk func(at strictyaml.Path, steps []byte) bool
		walk = func(at strictyaml.Path, steps []byte) bool {
			i := 0
			for step := range jsontext.Elements(steps) {
				if !yield(at.With(i), step) || !walk(at.With(i, "loop", "steps"), jsontext.Member(jsontext.Member(step, "loop"), "steps")) {
					return false
				}
				i++
			}
			return true
		}
		walk(nil, script)
	}
}

// ScriptCalls yields the tools that a script calls, and the servers whose tools it lists, each with its path
// in the script. Names may contain expressions.
func ScriptCalls(script json.RawMessage) iter.Seq2[strictyaml.Path, evidence.ToolRef] {
	return func(yield func(strictyaml.Path, evidence.ToolRef) bool) {
		for at, step := range scriptSteps(script) {
			for _, key := range []string{"call", "tools"} {
				if named := toolIn(jsontext.Member(step, key)); named.Server != "" && !yield(at.With(key), named) {
					return
				}
			}
		}
	}
}

// toolIn returns the tool that a mapping names.
func toolIn(named []byte) evidence.ToolRef {
	return evidence.ToolRef{Server: jsontext.Text(jsontext.Member(named, "server")), Tool: jsontext.Text(jsontext.Member(named, "tool"))}
}

// ScriptCall is a call that a script makes. Its arguments may contain expressions.
type ScriptCall struct {
	evidence.ToolRef
	Arguments json.RawMessage
	Expect    string // the outcome, or "any"; empty for ok
}

// Expects reports whether the script goes on after an outcome of the call.
func (c ScriptCall) Expects(o evidence.Outcome) bool {
	return c.Expect == "any" || cmp.Or(evidence.Outcome(c.Expect), evidence.OutcomeOK) == o
}

// ScriptActs holds what can be learned about a script without running it.
type ScriptActs struct {
	Calls []ScriptCall // calls of tools whose names contain no expressions
	Say   *string      // the last text that is said; nil if there is no script
}

// ReadScriptActs reads a script, which must have been checked. It may be empty.
func ReadScriptActs(script json.RawMessage) (acts ScriptActs) {
	if len(script) > 0 {
		acts.Say = new(string)
	}
	for _, step := range scriptSteps(script) {
		call, say := jsontext.Member(step, "call"), jsontext.Member(step, "say")
		if tool := toolIn(call); tool.Server != "" && !strings.Contains(tool.Server+tool.Tool, "{{") {
			arguments := jsontext.Member(call, "arguments")
			if len(arguments) == 0 || arguments[0] != '{' {
				arguments = []byte("{}")
			}
			acts.Calls = append(acts.Calls, ScriptCall{tool, arguments, jsontext.Text(jsontext.Member(call, "expect"))})
		}
		if len(say) > 0 && say[0] == '"' {
			acts.Say = new(jsontext.Text(say))
		}
	}
	return acts
}

// inBraces matches an expression in a text of a script.
var inBraces = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// Said returns the final output if every tool gives the same answer: the answer replaces expressions. Without
// a script, it returns the answer.
func (a ScriptActs) Said(answer string) string {
	if a.Say == nil {
		return answer
	}
	return inBraces.ReplaceAllLiteralString(*a.Say, answer)
}
