package grading

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
)

// allTurns is the value of turns for the output of all turns.
const allTurns = "all"

// TextConfig configures the text grader, which checks the final output. Each entry is one
// check, and the score is the share of checks that hold.
type TextConfig struct {
	_ struct{} `unknown:"warn"`

	Contains      []string `json:"contains,omitempty" jsonschema:"strings that the final output must contain, ignoring case"`
	NotContains   []string `json:"not_contains,omitempty" jsonschema:"strings that the final output must not contain, ignoring case"`
	ContainsAny   []string `json:"contains_any,omitempty" jsonschema:"strings of which the final output must contain at least one, ignoring case; counts as one check"`
	ContainsCS    []string `json:"contains_cs,omitempty" jsonschema:"strings that the final output must contain, case-sensitive"`
	NotContainsCS []string `json:"not_contains_cs,omitempty" jsonschema:"strings that the final output must not contain, case-sensitive"`
	RegexMatch    []string `json:"regex_match,omitempty" jsonschema:"RE2 expressions that must match somewhere in the final output"`
	RegexNotMatch []string `json:"regex_not_match,omitempty" jsonschema:"RE2 expressions that must not match in the final output"`
	Turns         string   `json:"turns,omitempty" enum:"last all" jsonschema:"of a conversation, whose output is checked: last, the default, is the final output; all is the output of all turns"`
}

// Validate refuses expressions that do not compile. A config without a check always passes, as
// in upstream waza.
func (c *TextConfig) Validate() error {
	return errors.Join(
		compilable("regex_match", c.RegexMatch),
		compilable("regex_not_match", c.RegexNotMatch),
	)
}

// empty reports whether there is no check.
func (c *TextConfig) empty() bool {
	return len(c.Contains)+len(c.NotContains)+len(c.ContainsAny)+len(c.ContainsCS)+len(c.NotContainsCS)+len(c.RegexMatch)+len(c.RegexNotMatch) == 0
}

func (c *TextConfig) grade(s *subject) (report, error) {
	if err := s.kept(evidence.GapFinalOutput); err != nil {
		return report{}, err
	}
	var r report
	text := s.trial.FinalOutput
	if c.Turns == allTurns {
		text = s.trial.EarlierOutput + text
	}
	removed := outputRemoved(s.trial, c.Turns == allTurns)
	output := checkedText{what: "the output", text: text, cased: " in this case", removed: removed}
	anyCase := checkedText{what: "the output", text: folded(text), fold: true, removed: removed}
	anyCase.contains(&r, "contains", c.Contains...)
	anyCase.lacks(&r, "not_contains", c.NotContains...)
	if len(c.ContainsAny) > 0 && !r.lacks(removed) {
		r.check("contains_any", slices.ContainsFunc(c.ContainsAny, anyCase.has), "Expected the output to contain one of %s; it contains none.", list(c.ContainsAny))
	}
	output.contains(&r, "contains_cs", c.ContainsCS...)
	output.lacks(&r, "not_contains_cs", c.NotContainsCS...)
	output.matches(&r, "regex_match", c.RegexMatch...)
	output.matchesNone(&r, "regex_not_match", c.RegexNotMatch...)
	return r, nil
}

// checkedText is a text with checks. If the text is not readable, all its checks fail, so
// that the number of checks is the same in every trial.
type checkedText struct {
	what   string // describes the text in a sentence
	text   string
	unread bool   // the text cannot be read
	why    string // why it cannot be read; empty if already reported
	fold   bool   // ignore case; text is folded
	cased  string // added after a string in a sentence to say that case matters
	shown  bool   // the sentence shows the text that lacks something

	removed error // set if a secret was removed from the text, so that checks of it are undecided
}

func (p checkedText) has(s string) bool {
	if p.fold {
		s = folded(s)
	}
	return strings.Contains(p.text, s)
}

// folded returns s with the same letter for all that differ in case alone. Lower case does not suffice: Σ has
// two small forms.
func folded(s string) string {
	return strings.Map(func(r rune) rune {
		lower := unicode.ToLower(r)
		least := lower
		for other := unicode.SimpleFold(lower); other != lower; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, s)
}

// lacking describes a text in which something was not found.
func (p checkedText) lacking() string {
	if p.shown {
		return "it is " + quote(p.text)
	}
	return "it does not"
}

// contains checks that the text contains each wanted string.
func (p checkedText) contains(r *report, key string, wanted ...string) {
	for _, s := range wanted {
		p.look(r, key, p.has(s), "to contain "+quote(s)+p.cased, s, p.lacking())
	}
}

// lacks checks that the text contains no banned string.
func (p checkedText) lacks(r *report, key string, banned ...string) {
	for _, s := range banned {
		p.look(r, key, !p.has(s), "not to contain "+quote(s)+p.cased, s, "it does")
	}
}

// matches checks that each wanted expression, all valid, matches in the text.
func (p checkedText) matches(r *report, key string, wanted ...string) {
	for _, expression := range wanted {
		p.look(r, key, regexp.MustCompile(expression).MatchString(p.text), "to match "+quote(expression), expression, p.lacking())
	}
}

// matchesNone checks that no banned expression, all valid, matches in the text.
func (p checkedText) matchesNone(r *report, key string, banned ...string) {
	for _, expression := range banned {
		at := regexp.MustCompile(expression).FindStringIndex(p.text)
		found := ""
		if at != nil {
			found = p.text[at[0]:at[1]]
		}
		p.look(r, key, at == nil, "not to match "+quote(expression), expression, "it does: "+quote(found))
	}
}

// look counts one check of a checkedText.
func (p checkedText) look(r *report, key string, holds bool, expected, wanted, found string) {
	switch {
	case p.removed != nil:
		r.lacks(p.removed)
		return
	case p.unread && p.why == "":
		r.check(key, false, "Could not look for %s in %s.", quote(wanted), p.what)
		return
	case p.unread:
		holds, found = false, p.why
	}
	r.check(key, holds, "Expected %s %s; %s.", p.what, expected, found)
}
