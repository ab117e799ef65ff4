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

// Read returns the front matter of a SKILL.md and the text after it. If the front matter is
// not valid YAML, for example because of a colon in an unquoted description, its lines are
// parsed as agents do: key, colon, value.
func Read(content string) (Skill, string, error) {
	var s Skill
	content = strings.ReplaceAll(strings.TrimPrefix(content, "\uFEFF"), "\r\n", "\n")
	rest, begins := strings.CutPrefix(content, "---\n")
	said, body, ends := strings.Cut("\n"+rest, "\n---")
	if !begins || !ends {
		return s, content, errors.New("does not begin with front matter: name and description between two lines ---")
	}
	_, body, _ = strings.Cut(body, "\n")
	err := decode(said, &s)
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

// decode decodes YAML. Keys that waza does not use may hold anything.
func decode(said string, s *Skill) error {
	if strings.TrimSpace(said) == "" {
		return nil
	}
	doc, err := strictyaml.Parse(SkillFile, []byte(said))
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	doc.Decode(&all)
	for key, v := range map[string]*string{"name": &s.Name, "description": &s.Description} {
		if value, ok := all[key]; ok && string(value) != "null" {
			doc.DecodeAt(v, key)
		}
	}
	return doc.Err()
}
