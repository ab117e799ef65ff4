package grading

import (
	"strings"
	"testing"
)

// FuzzTrigger reads arbitrary SKILL.md files: the score is always from 0 to 1.
func FuzzTrigger(f *testing.F) {
	f.Add("---\nname: a\ndescription: 'x USE FOR: \"one two\", b (c) DO NOT USE FOR: d'\n---\nbody", "one two three")
	f.Add("use for: a, b, (c). invokes: x", "DO NOT USE FOR:")
	f.Fuzz(func(t *testing.T, skill, prompt string) {
		c := TriggerConfig{SkillPath: "SKILL.md", Mode: triggerPositive}
		if c.Hold(map[string][]byte{"SKILL.md": []byte(skill)}) != nil {
			return
		}
		if score := c.scoreOf(prompt); score < 0 || score > 1 {
			t.Errorf("%q scores %v for %q", prompt, score, skill)
		}
	})
}

// TestTriggerScores holds the score against what upstream's rules give.
func TestTriggerScores(t *testing.T) {
	const skill = "---\nname: git-commit\ndescription: 'Writes messages. USE FOR: \"commit my changes\", \"stage files\". DO NOT USE FOR: rebase branches.'\n---\nStage the files.\n"
	c := TriggerConfig{SkillPath: "SKILL.md", Mode: triggerPositive}
	if err := c.Hold(map[string][]byte{"SKILL.md": []byte(skill)}); err != nil {
		t.Fatal(err)
	}
	for prompt, want := range map[string]float64{
		"Please commit my changes now":   1,        // the phrase whole
		"stage every file":               0.5,      // half of "stage files"
		"messages branches":              0.5,      // branches are not its subject
		"":                               0,        //
		"the and how":                    0,        // nothing is left
		"commit messages stage rebasing": 3.0 / 4., // three of four words
	} {
		if got := c.scoreOf(prompt); got != want {
			t.Errorf("%q scores %v, want %v", prompt, got, want)
		}
	}
}

// TestTriggerPhrases holds descriptions of other kinds against what upstream's rules give.
func TestTriggerPhrases(t *testing.T) {
	for _, test := range []struct {
		description, prompt string
		want                float64
	}{
		{"在庫 の 数量 を 調べる。", "在庫 を 見る", 2.0 / 3}, // を is three bytes
		{"在庫 の 数量 を 調べる。", "é を", 1},           // é is two
		{"Convert ①②③ and ½¼¾ figures.", "①②③ ½¼¾", 1},
		{"Text. USE FOR: parts parts parts hinges, single.", "parts zebra yak lion", 3.0 / 4},
		{"Text. USE FOR: parts parts parts hinges, single.", "hinges hinges zebra yak", 1.0 / 3},
		{"Does it. USE FOR: “deploy the app”, \"roll back”.", "we roll back at noon today", 1},
		{"Does it. USE FOR: “deploy the app”.", "app, deploy zebra yak lion", 1},
		{"Does it. USE FOR: \"deploy\nthe app\".", "now deploy the app zebra yak lion", 1},
		{"Does it. USE FOR: ship it (not (now). DO NOT USE FOR: poems.", "ship it", 1},
		{"Is NOT to USE FOR: poems. USE FOR: boats", "poems zebra yak lion cat", 1.0 / 5},
		{"Do not ever do it. USE FOR: deploy apps. INVOKES: tool. USE FOR: ship boats.", "ship boats zebra", 2.0 / 3},
	} {
		c := TriggerConfig{SkillPath: "SKILL.md", Mode: triggerPositive}
		if err := c.Hold(map[string][]byte{"SKILL.md": []byte("---\nname: c\ndescription: |\n  " + strings.ReplaceAll(test.description, "\n", "\n  ") + "\n---\nx yy\n")}); err != nil {
			t.Fatal(err)
		}
		if got := c.scoreOf(test.prompt); got != test.want {
			t.Errorf("%q scores %v for %q, want %v; phrases %q", test.prompt, got, test.description, test.want, c.phrases)
		}
	}
}
