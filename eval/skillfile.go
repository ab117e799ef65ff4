package eval

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
)

// maxSkillFile bounds a SKILL.md, in bytes.
const maxSkillFile = 1 << 20

// skillName is what names a skill: agents take it for a directory.
var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// readFrontMatter reads what a SKILL.md says of itself, with which agents can work.
func readFrontMatter(content string) (frontmatter.Skill, error) {
	m, _, err := frontmatter.Read(content)
	switch {
	case err != nil:
		return m, err
	case !skillName.MatchString(m.Name):
		return m, fmt.Errorf("gives the name %q; a skill's name is up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit", m.Name)
	case strings.TrimSpace(m.Description) == "":
		return m, errors.New("has no description in its front matter, by which agents choose")
	}
	return m, nil
}
