package llm

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/input"
)

// skillFile is the file with a skill's instructions.
const skillFile = "SKILL.md"

type skillArguments struct {
	Skill string `json:"skill"`
}

type skillFileArguments struct {
	Skill string `json:"skill"`
	Path  string `json:"path"`
}

// skillTools returns the tools that read skills; none if there are no skills. Graders count a use of the
// first tool as an invocation of the skill.
func skillTools(skills []input.Skill) []*tool {
	if len(skills) == 0 {
		return nil
	}
	return []*tool{
		local("skill", "Reads the instructions of a skill.",
			`{"type":"object","properties":{"skill":{"type":"string","description":"the skill's name"}},"required":["skill"]}`,
			func(_ context.Context, a skillArguments) result {
				return inSkill(skills, a.Skill, func(s input.Skill, root *os.Root) result { return instructions(s, root) })
			}),
		local("read_skill_file", "Reads a text file that belongs to a skill.",
			`{"type":"object","properties":{"skill":{"type":"string","description":"the skill's name"},"path":{"type":"string","description":"path in the skill's directory"}},"required":["skill","path"]}`,
			func(_ context.Context, a skillFileArguments) result {
				return inSkill(skills, a.Skill, func(_ input.Skill, root *os.Root) result {
					text, err := readText(root, a.Path)
					if err != nil {
						return failure(err.Error())
					}
					return result{text: text}
				})
			}),
	}
}

// inSkill calls do with a skill and its directory.
func inSkill(skills []input.Skill, name string, do func(input.Skill, *os.Root) result) result {
	i := slices.IndexFunc(skills, func(s input.Skill) bool { return s.Name == name })
	if i < 0 {
		return failure(fmt.Sprintf("there is no skill %s", quote(name)))
	}
	root, err := os.OpenRoot(skills[i].Dir)
	if err != nil {
		return failure(err.Error())
	}
	defer func() { _ = root.Close() }()
	return do(skills[i], root)
}

// instructions returns the skill's SKILL.md and the names of its other files.
func instructions(s input.Skill, root *os.Root) result {
	text, err := readText(root, skillFile)
	if err != nil {
		return failure(err.Error())
	}
	others, more := filesIn(root)
	if len(others) > 0 {
		text += fmt.Sprintf("\n\n[files of this skill, in %s; read_skill_file reads them]\n%s", s.Dir, listing(others, more))
	}
	return result{text: text}
}

// filesIn lists the files of a skill other than its instructions.
func filesIn(root *os.Root) (names []string, more bool) {
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Clean(name) == skillFile {
			return nil
		}
		if more = len(names) == maxEntries; more {
			return fs.SkipAll
		}
		names = append(names, name)
		return nil
	})
	return names, more
}

// listing returns sorted names, one per line.
func listing(names []string, more bool) string {
	slices.Sort(names)
	text := strings.Join(names, "\n")
	if more {
		text += fmt.Sprintf("\n[there are more than these %d]", len(names))
	}
	return text
}
