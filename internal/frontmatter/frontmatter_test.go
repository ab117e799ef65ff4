package frontmatter

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for content, want := range map[string]Skill{
		"---\nname: a\ndescription: b\n---\nbody":                         {"a", "b"},
		"---\r\nname: a\r\ndescription: \"b\r\n  c\"\r\n---\r\nbody":      {"a", "b c"},
		"---\nname: 007\ndescription: b\tc\nmetadata: {tags: [1]}\n---\n": {"007", "b\tc"},
		"---\nname: a\ndescription: b: c\n---\n":                          {"a", "b: c"},
		"---\nname: a\ndescription: >-\n  b\n  c\n---\n":                  {"a", "b c"},
		"---\nname:\nlicense: MIT\n---\n":                                 {},
		"---\n---\n":                                                      {},
	} {
		if got, _, err := Read(content); err != nil || got != want {
			t.Errorf("%q: %+v, %v", content, got, err)
		}
	}
	for content, want := range map[string]string{
		"name: a\n":                  "does not begin with front matter",
		"---\n- a\n---\n":            "has front matter that cannot be read: SKILL.md:2:1: the file must be a mapping",
		"---\ndescription: [\n---\n": "has front matter that cannot be read: SKILL.md:2:14: this is not valid YAML: the list that begins here",
	} {
		if _, _, err := Read(content); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
