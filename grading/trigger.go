package grading

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/frontmatter"
)

// Modes of the trigger grader.
const (
	triggerPositive = "positive"
	triggerNegative = "negative"
)

// Rules of upstream waza.
const (
	defaultTriggerThreshold = 0.6
	triggerDenial           = 11 // bytes before "USE FOR:" that are searched for "NOT", which negates it
)

// TriggerConfig configures the trigger grader, which checks whether a task's prompt reads like a prompt for
// the skill. It compares words and ignores what the agent did.
type TriggerConfig struct {
	_ struct{} `unknown:"warn"`

	SkillPath string   `json:"skill_path" jsonschema:"a SKILL.md, or a directory that contains one; relative to the eval or to the directory waza was started in"`
	Mode      string   `json:"mode" enum:"positive negative" jsonschema:"positive passes if the score reaches the threshold, negative if it does not"`
	Threshold *float64 `json:"threshold,omitempty" min:"0" max:"1" jsonschema:"from 0 to 1; default 0.6"`

	words   map[string]bool // words of the skill; set by Hold
	phrases []string        // phrases that should trigger the skill according to its description
}

// Files names the SKILL.md.
func (c *TriggerConfig) Files() []string {
	if strings.HasSuffix(strings.ToLower(c.SkillPath), ".md") {
		return []string{c.SkillPath}
	}
	return []string{path.Join(c.SkillPath, frontmatter.SkillFile)}
}

// Hold reads the SKILL.md. One without any words is refused.
func (c *TriggerConfig) Hold(held map[string][]byte) error {
	text, err := files.Text(held[c.Files()[0]])
	if err != nil {
		return fmt.Errorf("skill_path: file %s %w", quote(c.Files()[0]), err)
	}
	content := string(text)
	skill, body, err := frontmatter.Read(content)
	if err != nil { // then the whole file is the body
		body = content
	}
	before, _ := cutFold(skill.Description, "DO NOT USE FOR:")
	c.phrases = usedFor(skill.Description)
	c.words = map[string]bool{}
	for _, text := range append([]string{skill.Name, before, body}, c.phrases...) {
		for _, word := range wordsOf(text) {
			c.words[word] = true
		}
	}
	if len(c.words) == 0 {
		return errors.New("skill_path: the skill has no words to compare with")
	}
	return nil
}

// usedFor returns the phrases after "USE FOR:" in a description: those in double quotes if there are any;
// otherwise those between commas, without trailing remarks in parentheses.
func usedFor(description string) (phrases []string) {
	rest, before := strings.NewReplacer("\r\n", " ", "\n", " ").Replace(description), ""
	for denied := true; denied; {
		if before, rest = cutFold(rest, "USE FOR:"); rest == "" {
			return nil
		}
		denied = strings.Contains(strings.ToUpper(before[max(0, len(before)-triggerDenial):]), "NOT ")
	}
	for _, end := range []string{"DO NOT USE FOR:", "INVOKES:", "FOR SINGLE OPERATIONS:"} {
		rest, _ = cutFold(rest, end)
	}
	rest = strings.TrimRight(strings.TrimSpace(rest), ".")
	add := func(phrase string) {
		if phrase = strings.ToLower(strings.TrimSpace(phrase)); phrase != "" {
			phrases = append(phrases, phrase)
		}
	}
	if quoted := quotedPhrase.FindAllStringSubmatch(rest, -1); quoted != nil {
		for _, match := range quoted {
			add(match[1])
		}
		return phrases
	}
	for phrase := range strings.SplitSeq(rest, ",") {
		add(remarkAtEnd.ReplaceAllString(strings.TrimSpace(phrase), ""))
	}
	return phrases
}

var (
	quotedPhrase = regexp.MustCompile(`["“”]([^"“”]+)["“”]`)
	remarkAtEnd  = regexp.MustCompile(`\s*\([^)]*\)\s*$`)
)

// cutFold is like strings.Cut with a case-insensitive ASCII separator.
func cutFold(text, mark string) (before, after string) {
	for i := 0; i+len(mark) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(mark)], mark) {
			return text[:i], text[i+len(mark):]
		}
	}
	return text, ""
}

// stopWords are words that say nothing about the subject of a prompt.
var stopWords = setOf(strings.Fields(`the and for with this that from into your you are was were what where how why
	not can should using about have has had but all any too out get let`))

func setOf(words []string) map[string]bool {
	set := map[string]bool{}
	for _, word := range words {
		set[word] = true
	}
	return set
}

// wordsOf returns the words of a text for comparison, in lower case and in order. As in upstream waza, words
// of less than three bytes are omitted, so a single character of some scripts is a word.
func wordsOf(text string) (words []string) {
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		if len(word) >= 3 && !stopWords[word] {
			words = append(words, word)
		}
	}
	return words
}

// shareOf returns the share of words that others contains.
func shareOf(words []string, others map[string]bool) float64 {
	if len(words) == 0 {
		return 0
	}
	return float64(len(filter(words, func(word string) bool { return others[word] }))) / float64(len(words))
}

// scoreOf returns how much a prompt reads like a prompt for the skill. It is 1 if the prompt contains a
// phrase. Otherwise it is the larger of two shares: that of the prompt's distinct words that the skill has,
// and the largest share of a phrase's words that the prompt has. Repeated words of a phrase count each time.
func (c *TriggerConfig) scoreOf(prompt string) float64 {
	words := setOf(wordsOf(prompt))
	if len(words) == 0 {
		return 0
	}
	best, lower := shareOf(sortedKeys(words), c.words), strings.ToLower(prompt)
	for _, phrase := range c.phrases {
		if strings.Contains(lower, phrase) {
			return 1
		}
		best = max(best, shareOf(wordsOf(phrase), words))
	}
	return best
}

func (c *TriggerConfig) grade(s *subject) (report, error) {
	threshold := defaultTriggerThreshold
	if c.Threshold != nil {
		threshold = *c.Threshold
	}
	score := c.scoreOf(s.trial.Prompt)
	r := report{own: &score, details: map[string]any{"score": score, "threshold": threshold, "mode": c.Mode}}
	if c.Mode == triggerPositive {
		r.measure("threshold", evidence.Reaches(score, threshold), "Expected the prompt to score at least %.2f as a prompt for the skill; it scores %.2f.", threshold, score)
	} else {
		r.measure("threshold", !evidence.Reaches(score, threshold), "Expected the prompt to score less than %.2f as a prompt for the skill; it scores %.2f.", threshold, score)
	}
	return r, nil
}
