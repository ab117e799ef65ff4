package eval

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/frontmatter"
)

func TestFrontMatter(t *testing.T) {
	for content, want := range map[string]string{
		"---\nname: a\ndescription: b\n---\nbody":                 "",
		"---\r\nname: a\r\ndescription: b\r\n---\r\n":             "",
		"---\nname: a\ndescription: b\n---":                       "",
		"---\nname: a\ndescription: Does this: and that\n---\n":   "",
		"---\nname: 7\ndescription: b\nallowed-tools: [x]\n---\n": "",
		"---\n---\nname: a\ndescription: b\n---\n":                "gives the name \"\"",
		"---\nname: a\ndescription: b\n":                          "does not begin with front matter",
		"# title\n---\nname: a\n---\n":                            "does not begin with front matter",
		"":                                                        "does not begin with front matter",
		"---\nname: a\ndescription: ' '\n---\n":                   "no description",
		"---\nname: [a\n---\n":                                    "gives the name",
		"---\nname: a/b\ndescription: b\n---\n":                   `"a/b"`,
		"---\nname: .a\ndescription: b\n---\n":                    `".a"`,
	} {
		_, err := readFrontMatter(content)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
}

func FuzzFrontMatter(f *testing.F) {
	f.Add("---\nname: a\ndescription: b\n---\nbody")
	f.Add("---\na: &a [1]\nname: *a\n---\n")
	f.Fuzz(func(t *testing.T, content string) {
		if m, err := readFrontMatter(content); err == nil && (!skillName.MatchString(m.Name) || m.Description == "") {
			t.Errorf("%q gives %+v", content, m)
		}
		_, _ = frontmatter.ReadAgent(content) // which must not panic
	})
}
