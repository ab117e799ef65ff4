package grading

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading/match"
)

// ActionSequenceConfig configures the action_sequence grader, which checks the order of tool uses. It passes
// if the uses are as the mode requires. The score is the F1 score of expected and actual actions, ignoring
// order.
type ActionSequenceConfig struct {
	_ struct{} `unknown:"warn"`

	MatchingMode    string   `json:"matching_mode" enum:"exact_match in_order_match any_order_match" jsonschema:"exact_match: exactly these actions in this order; in_order_match: in this order, others may come between; any_order_match: in any order, others are allowed"`
	ExpectedActions []string `json:"expected_actions" jsonschema:"exact names of tools: TOOL for a builtin tool; mcp:SERVER/TOOL, SERVER-TOOL or TOOL for an MCP call; each as often as listed"`

	actions []selector // compiled by Validate
}

// Validate refuses invalid names of tools.
func (c *ActionSequenceConfig) Validate() error {
	var errs []error
	c.actions = nil
	for i, name := range c.ExpectedActions {
		sel, err := action(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("expected_actions[%d]: %w", i, err))
		}
		c.actions = append(c.actions, sel)
	}
	return errors.Join(errs...)
}

// action selects the uses of a tool by its exact name: mcp:SERVER/TOOL for an MCP call, or else TOOL or
// SERVER-TOOL.
func action(name string) (selector, error) {
	if strings.TrimSpace(name) == "" {
		return selector{}, errors.New("an empty name")
	}
	rest, ok := strings.CutPrefix(name, mcpSource)
	if !ok {
		return selector{tool: match.Named(name)}, nil
	}
	server, tool, _ := strings.Cut(rest, "/")
	if server == "" || tool == "" {
		return selector{}, fmt.Errorf("%q is not of the form mcp:SERVER/TOOL", name)
	}
	return selector{source: mcpSource + server, tool: match.Named(tool)}, nil
}

// Servers returns the servers of the expected tools.
func (c *ActionSequenceConfig) Servers() []string { return serversOf(c.actions) }

// Modes of a sequence.
const (
	exact    = "exact"
	inOrder  = "in_order"
	anyOrder = "any_order"
)

// actionName returns the name of a use in feedback and details.
func actionName(use capture.Use) string {
	if use.Call == nil {
		return use.Tool
	}
	return use.Source + "/" + use.Tool
}

func (c *ActionSequenceConfig) grade(s *subject) (report, error) {
	q := sequence{
		key: "expected_actions", mode: strings.TrimSuffix(c.MatchingMode, "_match"), expected: c.ExpectedActions,
		is:   func(k int, use capture.Use) bool { return c.actions[k].selects(use) },
		name: actionName, uses: newOrder(s.uses),
	}
	if err := errors.Join(s.seen(), s.builtinsKnown(false)); err != nil {
		return q.broken(err), nil
	}
	if missing := q.missing(); len(missing) > 0 && s.noTranscript && slices.ContainsFunc(missing, mayBeBuiltin) {
		return report{}, s.builtinsKnown(true)
	}
	r, err := q.grade()
	if err != nil {
		return report{}, err
	}
	r.details["matching_mode"], r.details["expected_actions"] = c.MatchingMode, c.ExpectedActions
	r.details["actual_actions"] = shown(q.names())
	return r, nil
}

func mayBeBuiltin(name string) bool { return !strings.HasPrefix(name, "mcp:") }

// sequence is an expected sequence of uses, and the actual uses.
type sequence struct {
	key      string // of the config
	mode     string
	expected []string
	is       func(k int, use capture.Use) bool // whether use is the kth expected one
	name     func(capture.Use) string
	uses     order
}

// missing lists the expected entries without a use, by a maximum matching of uses and entries.
func (q *sequence) missing() []string {
	kinds := map[string][]capture.Use{} // uses with the same name fit the same entries
	for _, use := range q.uses.all {
		kinds[q.name(use)] = append(kinds[q.name(use)], use)
	}
	names := sortedKeys(kinds)
	var capacity []int
	for _, name := range names {
		capacity = append(capacity, len(kinds[name]))
	}
	var missing []string
	for i, kind := range match.Fill(capacity, len(q.expected), func(kind, i int) bool { return q.is(i, kinds[names[kind]][0]) }) {
		if kind < 0 {
			missing = append(missing, q.expected[i])
		}
	}
	return missing
}

// names returns the names of the uses, in one of the possible orders.
func (q *sequence) names() []string {
	names := []string{}
	for _, use := range q.uses.all {
		names = append(names, q.name(use))
	}
	return names
}

// grade judges by the mode and sets the F1 score. It returns an error if the order of uses
// is not known well enough.
func (q *sequence) grade() (report, error) {
	matched, total := len(q.expected)-len(q.missing()), len(q.uses.all)
	precision, recall := share(matched, total), share(matched, len(q.expected))
	f1 := share(2*matched, total+len(q.expected))
	r := report{own: &f1, details: map[string]any{"precision": precision, "recall": recall, "f1": f1}}
	switch q.mode {
	case anyOrder:
		r.check(q.key, matched == len(q.expected), "Expected %s, in any order; missing: %s. Found %s.",
			list(q.expected), list(q.missing()), list(q.names()))
	case inOrder:
		return r, q.ordered(&r, q.follows)
	default:
		if total != len(q.expected) {
			r.check(q.key, false, "Expected exactly %d: %s; found %d: %s.", len(q.expected), list(q.expected), total, list(q.names()))
			return r, nil
		}
		return r, q.ordered(&r, q.repeats)
	}
	return r, nil
}

// broken judges a sequence of which a part is missing. With exact, it fails if there are excess uses, since
// missing ones cannot change that.
func (q *sequence) broken(missing error) report {
	r := report{missing: missing, own: new(float64), details: map[string]any{}}
	if matched := len(q.expected) - len(q.missing()); q.mode == exact && len(q.uses.all) > matched {
		r.check(q.key, false, "Expected exactly %d: %s; found %d: %s.", len(q.expected), list(q.expected), len(q.uses.all), list(q.names()))
	}
	return r
}

// ordered checks that step reaches the end of the expected actions. It returns an error if this depends on
// the unknown part of the order of the uses.
func (q *sequence) ordered(r *report, step func(k, position int, use capture.Use) int) error {
	worst, best := q.uses.walk(step)
	if worst < len(q.expected) && best == len(q.expected) {
		return fmt.Errorf("%w: whether %s came in this order is not known: the transcript does not show where %s belongs among the builtin tools",
			errEvidence, list(q.expected), describeCall(*q.uses.unknown().Call))
	}
	if best == len(q.expected) {
		r.check(q.key, true, "Expected %s, in this order; they came so.", list(q.expected))
		return nil
	}
	where := "it does not begin with " + quote(q.expected[best])
	if best > 0 {
		where = fmt.Sprintf("after %s, number %d, %s does not follow", quote(q.expected[best-1]), best, quote(q.expected[best]))
	}
	r.check(q.key, false, "Expected %s, in this order; %s. Found %s.", list(q.expected), where, list(q.names()))
	return nil
}

// follows steps through the expected uses, with any others between them.
func (q *sequence) follows(k, _ int, use capture.Use) int {
	if k < len(q.expected) && q.is(k, use) {
		return k + 1
	}
	return k
}

// repeats steps through the expected uses, with no others between them.
func (q *sequence) repeats(k, position int, use capture.Use) int {
	if k == position {
		return q.follows(k, position, use)
	}
	return k
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// maxListed is how many entries of a list a verdict's details hold.
const maxListed = 200

func shown(names []string) []string { return names[:min(len(names), maxListed)] }
