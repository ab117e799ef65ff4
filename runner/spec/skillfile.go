package spec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/waza-isolate/waza/internal/visible"
)

// skillFile is what a skill's instructions are in.
const skillFile = "SKILL.md"

// maxSkillFile bounds it, in bytes.
const maxSkillFile = 1 << 20

// skillName is what names a skill: agents take it for a directory.
var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// frontMatter is what a SKILL.md says of itself that counts here.
type frontMatter struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

// readFrontMatter reads the YAML between the lines --- that a SKILL.md begins with. Other
// keys are agents' own affair.
func readFrontMatter(content string) (frontMatter, error) {
	var m frontMatter
	content = strings.ReplaceAll(strings.TrimPrefix(content, "\uFEFF"), "\r\n", "\n")
	rest, begins := strings.CutPrefix(content, "---\n")
	text, _, ends := strings.Cut("\n"+rest, "\n---")
	if !begins || !ends {
		return m, errors.New("begins with no front matter: name and description between two lines ---")
	}
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		return m, fmt.Errorf("has a front matter that is no YAML: %s", visible.FirstLine(err.Error()))
	}
	switch {
	case !skillName.MatchString(m.Name):
		return m, fmt.Errorf("gives the name %q; a skill's name is up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit", m.Name)
	case strings.TrimSpace(m.Description) == "":
		return m, errors.New("has no description in its front matter, by which agents choose")
	}
	return m, nil
}
