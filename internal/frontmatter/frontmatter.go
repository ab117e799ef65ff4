// Package frontmatter reads the YAML front matter of a SKILL.md and the text after it.
package frontmatter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

// SkillFile is the name of the file with a skill's instructions.
const SkillFile = "SKILL.md"

// Skill is the part of the front matter that waza uses. Other keys are for agents.
type Skill struct{ Name, Description string }

// AgentSuffix ends the name of a file with a custom agent's instructions.
const AgentSuffix = ".agent.md"

// Agent is the part of a custom agent's front matter that waza uses.
type Agent struct {
	Name, Description string
	Tools             *[]string // allowed tools; nil for all
}

// ReadAgent returns the front matter of a custom agent.
func ReadAgent(content string) (Agent, error) {
	var a Agent
	said, _, ok := split(content)
	if !ok {
		return a, errNone
	}
	if err := decode("*"+AgentSuffix, said, map[string]any{"name": &a.Name, "description": &a.Description, "tools": &a.Tools}); err != nil {
		return a, fmt.Errorf("has front matter that cannot be read: %s; tools is a list of names", text.FirstLine(err.Error()))
	}
	return a, nil
}

var errNone = errors.New("does not begin with front matter: name and description between two lines ---")

// split returns the front matter of a file and the text after it.
func split(content string) (said, body string, ok bool) {
	content = strings.ReplaceAll(content, "\r\n", "\n")
	rest, begins := strings.CutPrefix(content, "---\n")
	said, body, ends := strings.Cut("\n"+rest, "\n---")
	if !begins || !ends {
		return "", content, false
	}
	_, body, _ = strings.Cut(body, "\n")
	return said, body, true
}

// Read returns the front matter of a SKILL.md and the text after it. If the front matter is
// not valid YAML, for example because of a colon in an unquoted description, its lines are
// parsed as agents do: key, colon, value.
func Read(content string) (Skill, string, error) {
	var s Skill
	said, body, ok := split(content)
	if !ok {
		return s, body, errNone
	}
	err := decode(SkillFile, said, map[string]any{"name": &s.Name, "description": &s.Description})
	if err == nil {
		return s, body, nil
	}
	for line := range strings.SplitSeq(said, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch key {
		case "name":
			s.Name = value
		case "description":
			s.Description = value
		}
	}
	if s.Name == "" || strings.ContainsAny(s.Description, "|>") && len(s.Description) < 3 {
		return s, body, fmt.Errorf("has front matter that cannot be read: %s", text.FirstLine(err.Error()))
	}
	return s, body, nil
}

// decode decodes the keys of fields from YAML. Other keys may have any value.
func decode(file, said string, fields map[string]any) error {
	if strings.TrimSpace(said) == "" {
		return nil
	}
	doc, err := strictyaml.Parse(file, []byte(said))
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	doc.Decode(&all)
	for key, field := range fields {
		if value, ok := all[key]; ok && string(value) != "null" {
			doc.DecodeAt(field, key)
		}
	}
	return doc.Err()
}
