package grading

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// rubrics are the built-in rubrics, named as in upstream waza.
//
//go:embed rubrics
var rubrics embed.FS

// PromptConfig configures the prompt grader: a model judges the final output and the
// calls by a rubric, or compares the output with that of a run without skills. It is one
// check, and the score is the judge's.
type PromptConfig struct {
	_ struct{} `unknown:"warn"`

	Prompt          string       `json:"prompt,omitempty" jsonschema:"criteria for the model to judge by; required without rubric, whose text it replaces"`
	Rubric          string       `json:"rubric,omitempty" jsonschema:"rubric that comes with waza: groundedness, helpfulness, instruction-following, refusal-correctness or tool-use-appropriateness; or a Markdown file with one, relative to the eval, whose name begins with . or has a / or ends in .md"`
	Model           string       `json:"model,omitempty" jsonschema:"model to ask; overrides config.judge.model, config.judge_model and --judge-model"`
	Mode            string       `json:"mode,omitempty" enum:"independent pairwise" jsonschema:"independent judges each trial by itself; pairwise judges which of the outputs of the trial and of its baseline is better; default independent"`
	ReasoningEffort string       `json:"reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"reasoning effort of the model; overrides config.judge_reasoning_effort"`
	ContinueSession bool         `json:"continue_session,omitempty" jsonschema:"also show the judge the agent's conversation; default false"`
	Judge           *JudgeConfig `json:"judge,omitempty" jsonschema:"how often to ask the judge, and how to combine its answers; default of min_score 1"`

	text string // of the rubric
}

const modePairwise = "pairwise"

// Validate refuses a config without criteria, an unknown rubric, and settings of one mode in
// the other.
func (c *PromptConfig) Validate() error {
	switch {
	case c.Rubric == "" && strings.TrimSpace(c.Prompt) == "":
		return errors.New("give it prompt, the criteria to judge by, or the name of a rubric")
	case c.Rubric == "" || len(c.Files()) > 0:
	default:
		content, err := rubrics.ReadFile("rubrics/" + c.Rubric + ".md")
		if err != nil {
			hint := strictyaml.Suggest(c.Rubric, rubricNames())
			if !IsRubric(c.Rubric) {
				hint = "criteria in words belong under prompt"
			}
			return fmt.Errorf("rubric: %s is neither a file, whose name has a / or ends in .md, nor a rubric that comes with waza; %s", quote(c.Rubric), hint)
		}
		c.text = string(content)
	}
	if c.Mode == modePairwise && c.Judge != nil {
		return errors.New("judge: in mode pairwise the judge is asked twice, once in each order, and the better output wins; leave it out")
	}
	return nil
}

// IsRubric reports whether a text names a rubric or a rubric's file. A text with spaces is the criteria
// themselves.
func IsRubric(text string) bool { return !strings.ContainsAny(strings.TrimSpace(text), " \t\n") }

// rubricNames lists the built-in rubrics.
func rubricNames() (names []string) {
	found, _ := fs.Glob(rubrics, "rubrics/*.md") // the pattern is valid
	for _, name := range found {
		names = append(names, strings.TrimSuffix(path.Base(name), ".md"))
	}
	return names
}

// Files names the rubric's file. As in upstream waza, a name that looks like a path is treated as one.
func (c *PromptConfig) Files() []string {
	if strings.HasPrefix(c.Rubric, ".") || strings.HasPrefix(c.Rubric, "~") || strings.Contains(c.Rubric, "/") || strings.HasSuffix(c.Rubric, ".md") {
		return []string{c.Rubric}
	}
	return nil
}

// Hold reads the rubric's file: Markdown, optionally with front matter.
func (c *PromptConfig) Hold(held map[string][]byte) error {
	for _, name := range c.Files() {
		text, err := files.Text(held[name])
		if err != nil {
			return fmt.Errorf("rubric: file %s %w", quote(name), err)
		}
		content := string(text)
		if strings.HasPrefix(content, "---") {
			_, body, err := frontmatter.Read(content)
			if err != nil {
				return fmt.Errorf("rubric: file %s %w", quote(name), err)
			}
			content = body
		}
		if c.text = strings.TrimSpace(content); c.text == "" {
			return fmt.Errorf("rubric: file %s has no text to judge by", quote(name))
		}
	}
	return nil
}

// inquiry returns the question to the judge. Without a min_score no criterion may fail, as in
// upstream waza.
func (c *PromptConfig) inquiry() (judgement, bool) {
	q := judgement{rubric: cmp.Or(c.Prompt, c.text), model: c.Model, effort: c.ReasoningEffort, conversation: c.ContinueSession, pairwise: c.Mode == modePairwise}
	if c.Judge != nil {
		q.JudgeConfig = *c.Judge
	}
	if q.MinScore == nil {
		whole := 1.0
		q.MinScore = &whole
	}
	return q, true
}

func (c *PromptConfig) grade(s *subject) (report, error) {
	q, _ := c.inquiry()
	said, err := s.rule(q)
	switch {
	case err != nil:
		return report{}, err
	case s.pairs(q):
		return gradePair(said), nil
	}
	score := said.score()
	r := report{own: &score, said: said.sentence(), details: map[string]any{"judge": said.details()}}
	if c.Rubric != "" {
		r.details["rubric"] = c.Rubric
	}
	r.decide("prompt", said.passes(), said.finding())
	if q.pairwise {
		r.note("There was no run without skills to compare with, so it is judged by itself.")
	}
	return r, nil
}
