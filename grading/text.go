package grading

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// TextConfig configures the text grader: what the final output must and must not
// say. Each entry is one check, and the score is the share of checks that hold.
type TextConfig struct {
	_ struct{} `unknown:"warn"`

	Contains      []string `json:"contains,omitempty" jsonschema:"strings the final output contains, whatever their case"`
	NotContains   []string `json:"not_contains,omitempty" jsonschema:"strings the final output does not contain, whatever their case"`
	ContainsAny   []string `json:"contains_any,omitempty" jsonschema:"strings of which the final output contains one, whatever their case; one check"`
	ContainsCS    []string `json:"contains_cs,omitempty" jsonschema:"strings the final output contains in exactly this case"`
	NotContainsCS []string `json:"not_contains_cs,omitempty" jsonschema:"strings the final output does not contain in exactly this case"`
	RegexMatch    []string `json:"regex_match,omitempty" jsonschema:"RE2 expressions that match somewhere in the final output"`
	RegexNotMatch []string `json:"regex_not_match,omitempty" jsonschema:"RE2 expressions that match nowhere in the final output"`
}

// Validate refuses expressions that do not compile. A config without a check is
// waza's way to pass always.
func (c *TextConfig) Validate() error {
	return errors.Join(
		compilable("regex_match", c.RegexMatch),
		compilable("regex_not_match", c.RegexNotMatch),
	)
}

func (c *TextConfig) grade(s *subject) (report, error) {
	if err := s.kept(evidence.GapFinalOutput); err != nil {
		return report{}, err
	}
	var r report
	output := s.trial.FinalOutput
	lower := strings.ToLower(output)
	for _, want := range c.Contains {
		r.check(strings.Contains(lower, strings.ToLower(want)),
			"Expected the output to contain %s; it does not.", quote(want))
	}
	for _, ban := range c.NotContains {
		r.check(!strings.Contains(lower, strings.ToLower(ban)),
			"Expected the output not to contain %s; it does.", quote(ban))
	}
	if len(c.ContainsAny) > 0 {
		has := func(want string) bool { return strings.Contains(lower, strings.ToLower(want)) }
		r.check(slices.ContainsFunc(c.ContainsAny, has), "Expected the output to contain one of %s; it contains none.", list(c.ContainsAny))
	}
	for _, want := range c.ContainsCS {
		r.check(strings.Contains(output, want),
			"Expected the output to contain %s in this case; it does not.", quote(want))
	}
	for _, ban := range c.NotContainsCS {
		r.check(!strings.Contains(output, ban),
			"Expected the output not to contain %s in this case; it does.", quote(ban))
	}
	r.patterns("the output", []byte(output), c.RegexMatch, c.RegexNotMatch)
	return r, nil
}

// patterns checks which valid expressions match in text and which do not.
func (r *report) patterns(what string, text []byte, match, notMatch []string) {
	for _, want := range match {
		r.check(regexp.MustCompile(want).Match(text),
			"Expected %s to match %s; it does not.", what, quote(want))
	}
	for _, ban := range notMatch {
		found := regexp.MustCompile(ban).Find(text)
		r.check(found == nil,
			"Expected %s not to match %s; it does: %s.", what, quote(ban), quote(string(found)))
	}
}

// content checks what a file contains. Of one that cannot be read every check
// fails, so that the score counts the same checks in every trial.
func (r *report) content(pattern ContentPattern, found *entry) {
	name := quote(pattern.Path)
	unread := found.unread()
	r.check(unread == "", "Expected to read %s; %s.", name, unread)
	if unread == "" {
		r.patterns(name, found.content, pattern.MustMatch, pattern.MustNotMatch)
		return
	}
	for _, expression := range slices.Concat(pattern.MustMatch, pattern.MustNotMatch) {
		r.check(false, "Could not look for %s in %s.", quote(expression), name)
	}
}

// holdsText checks what a text holds. Of one that cannot be read every check fails, so
// that the score counts the same checks in every trial.
func (r *report) holdsText(what, text, unread string, contains, matches []string) {
	for _, wanted := range contains {
		r.check(unread == "" && strings.Contains(text, wanted), "Expected %s to contain %s; %s.", what, quote(wanted), insteadOf(text, unread))
	}
	for _, expression := range matches {
		found, err := regexp.MatchString(expression, text)
		r.check(unread == "" && err == nil && found, "Expected %s to match %s; %s.", what, quote(expression), insteadOf(text, unread))
	}
}

// insteadOf says what there is.
func insteadOf(text, unread string) string {
	if unread != "" {
		return unread
	}
	return "it is " + quote(text)
}

// holdsValue checks what a JSON value is.
func (r *report) holdsValue(what string, value json.RawMessage, unread string, wanted match.ArgsConfig) {
	args, err := wanted.Compile()
	switch {
	case err != nil:
		r.check(false, "Could not compare %s: %v.", what, err)
		return
	case unread != "":
		r.check(false, "Could not compare %s: %s.", what, unread)
		return
	case !jsontext.Valid(value):
		r.check(false, "Expected %s to be JSON; it is %s.", what, quote(string(value)))
		return
	}
	fit := args.Check(value)
	var differences []string
	for _, d := range fit.Differences {
		differences = append(differences, d.String())
	}
	r.check(fit.Full(), "Expected otherwise of %s: %s.", what, strings.Join(differences, "; "))
}
