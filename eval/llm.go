package eval

import (
	"slices"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// LLM is how the loop of executor llm goes.
type LLM struct {
	MaxTurns    int      `json:"max_turns,omitempty" min:"1" max:"10000" jsonschema:"answers of the model; default 50"`
	System      string   `json:"system,omitempty" jsonschema:"what the system prompt ends with"`
	Tools       []string `json:"tools,omitempty" jsonschema:"kinds of tools beside those that read skills: mcp, files and shell; default all that there can be"`
	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"how freely the model answers; the endpoint's own where left out"`
	MaxTokens   int      `json:"max_tokens,omitempty" min:"1" max:"10000000" jsonschema:"limit of each answer; the endpoint's own where left out"`
}

// toolKinds are what LLM.Tools may name.
func toolKinds() []string { return []string{"mcp", "files", "shell"} }

// checkLLM holds config.llm, and the model's provider, to what executor llm can do.
func (l *loader) checkLLM(c Config) {
	at := strictyaml.Path{"config", "llm"}
	if c.LLM != nil && l.written != "" && l.written != "llm" && c.Executor != "llm" {
		l.doc.Problemf(at, "config.llm is for executor llm; this eval's executor is %s", l.written)
	}
	if c.LLM == nil {
		return
	}
	for i, kind := range c.LLM.Tools {
		here := append(slices.Clone(at), "tools", i)
		if !slices.Contains(toolKinds(), kind) {
			l.doc.Problemf(here, "%s: unknown kind %q; %s", here, kind, strictyaml.Suggest(kind, toolKinds()))
		}
	}
}
