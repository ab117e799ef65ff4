package stub

import (
	"slices"
	"strings"
)

// condition is what must hold of a request, all of it. What is empty holds always.
type condition struct {
	PromptContains string `json:"prompt_contains,omitempty"` // what the user said, anywhere
	SystemContains string `json:"system_contains,omitempty"`
	ResultContains string `json:"result_contains,omitempty"` // what some tool answered
	Tool           string `json:"tool,omitempty"`            // one is offered whose name ends so
	Model          string `json:"model,omitempty"`           // as the request names it
}

func (c condition) holds(r *request) bool {
	return strings.Contains(r.System, c.SystemContains) &&
		(c.Model == "" || c.Model == r.Model) &&
		(c.Tool == "" || slices.ContainsFunc(r.tools, func(t offered) bool { return t.is(c.Tool) })) &&
		(c.PromptContains == "" || strings.Contains(r.prompt, c.PromptContains)) &&
		(c.ResultContains == "" || slices.ContainsFunc(r.told, func(t told) bool {
			return strings.Contains(t.text, c.ResultContains)
		}))
}
