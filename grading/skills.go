package grading

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// SkillInvocationConfig configures the skill_invocation grader, which checks the skills in the agent's
// transcript. It passes if the required skills were invoked as the mode requires, and no forbidden or
// disallowed extra skill was. The score is the F1 score of required and invoked skills. Disallowed extra
// skills reduce it by up to 60%, and a forbidden one to 0.
type SkillInvocationConfig struct {
	_ struct{} `unknown:"warn"`

	RequiredSkills  []string `json:"required_skills,omitempty" jsonschema:"skills that must be invoked, each as often as listed; an empty list with exact_match allows none"`
	ForbiddenSkills []string `json:"forbidden_skills,omitempty" jsonschema:"skills that must not be invoked"`
	Mode            string   `json:"mode,omitempty" enum:"exact_match in_order any_order" jsonschema:"exact_match: exactly the required skills in this order; in_order: in this order, others may come between; any_order: in any order, others are allowed; required with required_skills"`
	AllowExtra      *bool    `json:"allow_extra,omitempty" jsonschema:"whether in_order and any_order allow more invocations than the required ones; default true; false fails a trial with more"`
}

// Validate refuses an empty config, a missing mode and empty names.
func (c *SkillInvocationConfig) Validate() error {
	if len(c.RequiredSkills)+len(c.ForbiddenSkills) == 0 && !c.none() {
		return errEmpty
	}
	var errs []error
	if len(c.RequiredSkills) > 0 && c.Mode == "" {
		errs = append(errs, errors.New(`mode: "" is none of exact_match, in_order, any_order`))
	}
	if c.AllowExtra != nil && c.RequiredSkills == nil {
		errs = append(errs, errors.New("allow_extra: goes with required_skills"))
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{"required_skills", c.RequiredSkills}, {"forbidden_skills", c.ForbiddenSkills}} {
		if i := slices.IndexFunc(list.names, func(name string) bool { return strings.TrimSpace(name) == "" }); i >= 0 {
			errs = append(errs, fmt.Errorf("%s[%d]: an empty name", list.key, i))
		}
	}
	return errors.Join(errs...)
}

// none reports whether no skill may be invoked at all: required_skills is an empty list, and no other skills
// are allowed.
func (c *SkillInvocationConfig) none() bool {
	extra := c.AllowExtra == nil || *c.AllowExtra
	return c.RequiredSkills != nil && len(c.RequiredSkills) == 0 && (c.Mode == "exact_match" || !extra)
}

func (c *SkillInvocationConfig) grade(s *subject) (report, error) {
	gap := s.builtinsKnown(true)
	// As in upstream waza, a skill that failed to load counts as not invoked.
	uses := filter(s.uses, func(use capture.Use) bool { return use.Source == capture.SourceSkill && !use.Failed })
	for _, use := range uses {
		if names := slices.Concat(use.Marks["skill"], use.Marks[""]); len(names) > 0 {
			gap = cmp.Or(gap, removed(errSpoilt, names, "the name of a skill"))
		}
	}
	q := sequence{
		key: "required_skills", mode: strings.TrimSuffix(c.Mode, "_match"), expected: c.RequiredSkills,
		is:   func(k int, use capture.Use) bool { return skillName(use) == c.RequiredSkills[k] },
		name: skillName, uses: newOrder(uses),
	}
	r := report{own: new(float64), details: map[string]any{}}
	*r.own = 1
	if c.none() {
		r.check("required_skills", len(uses) == 0, "Expected no skill to be invoked; found %d: %s.", len(uses), list(q.names()))
		if len(uses) > 0 {
			*r.own = 0
		}
	} else if gap != nil {
		r = q.broken(gap)
	} else if len(c.RequiredSkills) > 0 {
		var err error
		if r, err = q.grade(); err != nil {
			return report{}, err
		}
	}
	r.lacks(gap)
	c.extras(&r, q.names())
	c.forbidden(&r, q.names())
	r.details["mode"], r.details["required_skills"], r.details["actual_skills"] = c.Mode, c.RequiredSkills, shown(q.names())
	return r, nil
}

// skillName returns the skill that a use invokes.
func skillName(use capture.Use) string {
	skill := jsontext.Member(use.Arguments, "skill")
	return cmp.Or(jsontext.Text(skill), string(skill))
}

// extras checks that no additional skill was invoked, if that is not allowed and the mode
// does not imply it.
func (c *SkillInvocationConfig) extras(r *report, names []string) {
	extra := len(names) - len(c.RequiredSkills)
	if c.AllowExtra == nil || *c.AllowExtra || extra <= 0 || c.none() {
		return
	}
	*r.own *= 1 - 0.6*share(extra, len(names))
	r.check("allow_extra", false, "Expected no skill beyond the %d required; found %d: %s.", len(c.RequiredSkills), len(names), list(names))
}

func (c *SkillInvocationConfig) forbidden(r *report, names []string) {
	for _, skill := range c.ForbiddenSkills {
		invoked := slices.Contains(names, skill)
		r.check("forbidden_skills", !invoked, "Expected skill %s not to be invoked; it was.", quote(skill))
		if invoked {
			*r.own = 0
		}
	}
}
