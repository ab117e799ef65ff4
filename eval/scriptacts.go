package eval

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

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

// ScriptActs is what a script does as far as it can be read without playing it.
type ScriptActs struct {
	Calls []ScriptCall // of tools whose names are no expressions
	Say   *string      // what is said last; nil if there is no script
}

// ReadScriptActs reads a script that has been checked, or none.
func ReadScriptActs(script json.RawMessage) (acts ScriptActs) {
	if len(script) > 0 {
		acts.Say = new(string)
		acts.read(script)
	}
	return acts
}

func (a *ScriptActs) read(steps json.RawMessage) {
	var all []struct {
		Call *struct {
			Server, Tool, Expect string
			Arguments            json.RawMessage
		}
		Say  *string
		Loop struct{ Steps json.RawMessage }
	}
	if json.Unmarshal(steps, &all) != nil {
		return
	}
	for _, step := range all {
		if c := step.Call; c != nil && !strings.Contains(c.Server+c.Tool, "{{") {
			if len(c.Arguments) == 0 || c.Arguments[0] != '{' {
				c.Arguments = json.RawMessage("{}")
			}
			a.Calls = append(a.Calls, ScriptCall{evidence.ToolRef{Server: c.Server, Tool: c.Tool}, c.Arguments, c.Expect})
		}
		if step.Say != nil {
			a.Say = step.Say
		}
		if len(step.Loop.Steps) > 0 {
			a.read(step.Loop.Steps)
		}
	}
}

// inBraces matches an expression in a text of a script.
var inBraces = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// Said returns what is said in the end if every tool answers the same: its answer in place of
// expressions. Without a script it is the answer.
func (a ScriptActs) Said(answer string) string {
	if a.Say == nil {
		return answer
	}
	return inBraces.ReplaceAllLiteralString(*a.Say, answer)
}
