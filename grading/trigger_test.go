package grading

import "testing"

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
