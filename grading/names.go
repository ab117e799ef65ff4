package grading

import (
	"encoding/json"

	"github.com/waza-isolate/waza/grading/match"
)

// NamePattern names tools, resources or prompts: one exactly, or with "/expression/"
// all whose whole name it matches. Case counts.
type NamePattern struct{ match.Tool }

// UnmarshalJSON reads a string, and refuses an empty one and an expression that RE2
// does not accept.
func (p *NamePattern) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return p.set(text)
}

func (p *NamePattern) set(text string) error {
	tool, err := match.CompileTool(text)
	p.Tool = tool
	return err
}

// String is p for a sentence: a name in quotes, an expression as it is.
func (p NamePattern) String() string {
	text := p.Tool.String()
	if match.IsExpression(text) {
		return clip(text)
	}
	return quote(text)
}

func (p NamePattern) empty() bool { return p.Tool.String() == "" }
