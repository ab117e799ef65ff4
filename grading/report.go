package grading

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// report collects the checks of one grader.
type report struct {
	checks   int
	failures []string
	notes    []string // sentences that fail nothing
	details  map[string]any
	calls    []int    // that failures and notes are about, by their numbers
	own      *float64 // score in place of the share of checks that hold
	said     string   // what a grader's program said; its feedback where all checks hold
}

// check counts one check; where it does not hold, the sentence says what was
// expected and what was found.
func (r *report) check(holds bool, format string, args ...any) {
	r.checks++
	if !holds {
		r.about(args)
		r.failures = append(r.failures, fmt.Sprintf(format, args...))
	}
}

// note adds a sentence that fails nothing.
func (r *report) note(format string, args ...any) {
	r.about(args)
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *report) result() evidence.VerdictResult {
	if len(r.failures) > 0 {
		return evidence.VerdictFail
	}
	return evidence.VerdictPass
}

// score is the share of checks that hold, unless the grader has a score of its own.
func (r *report) score() float64 {
	if r.own != nil {
		return *r.own
	}
	if r.checks == 0 {
		return 1
	}
	return float64(r.checks-len(r.failures)) / float64(r.checks)
}

// feedback returns the failures, or that every check holds, and then the notes.
func (r *report) feedback() string {
	sentences := atMost(r.failures)
	switch {
	case len(r.failures) > 0:
	case r.said != "":
		sentences = []string{r.said}
	case r.checks == 1:
		sentences = []string{"The one check holds."}
	default:
		sentences = []string{fmt.Sprintf("All %d checks hold.", r.checks)}
	}
	return strings.Join(append(sentences, atMost(r.notes)...), " ")
}

// maxSentences is how many failures, and how many notes, feedback tells. Graders
// put the most important ones first.
const maxSentences = 20

func atMost(sentences []string) []string {
	if len(sentences) <= maxSentences {
		return sentences
	}
	left := len(sentences) - maxSentences
	return append(slices.Clone(sentences[:maxSentences]), fmt.Sprintf("And %d more.", left))
}

// join writes things for a sentence.
func join[T fmt.Stringer](things []T, between string) string {
	var written []string
	for _, thing := range things {
		written = append(written, thing.String())
	}
	return strings.Join(written, between)
}

// maxShown is how many entries of a list a sentence shows.
const maxShown = 8

// list writes names for a sentence: quoted, in order, cut after maxShown.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return listOf(names, quote)
}

// maxQuoted is how many bytes of a foreign string a sentence shows.
const maxQuoted = 100

func quote(s string) string { return text.Quote(s, maxQuoted) }

// clip cuts a text that is shown as it is, JSON above all.
func clip(s string) string { return text.Shorten(s, maxQuoted) }

// listOf writes things for a sentence, cut after maxShown.
func listOf[T any](all []T, describe func(T) string) string {
	return strings.Join(text.Some(all, maxShown, describe), ", ")
}

func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }

// detailCalls is the key of a verdict's details that has the numbers of the captured
// calls which its feedback is about, in order, at most [maxListed]. Reports lead there.
const detailCalls = "about_calls"

// mention is a sentence's words for some calls, with the calls' numbers.
type mention struct {
	text  string
	calls []int
}

func (m mention) String() string { return m.text }

// about notes the calls that a sentence mentions in its arguments.
func (r *report) about(args []any) {
	for _, arg := range args {
		if m, ok := arg.(mention); ok {
			r.calls = append(r.calls, m.calls...)
		}
	}
}

// described are the details with the calls that the report is about.
func (r *report) described() map[string]any {
	if len(r.calls) == 0 {
		return r.details
	}
	slices.Sort(r.calls)
	calls := slices.Compact(r.calls)
	if r.details == nil {
		r.details = map[string]any{}
	}
	r.details[detailCalls] = calls[:min(len(calls), maxListed)]
	return r.details
}

// captured are the numbers of uses that were captured.
func captured(uses []capture.Use) (calls []int) {
	for _, use := range uses {
		if use.Call != nil {
			calls = append(calls, use.Call.Seq)
		}
	}
	return calls
}

// aboutCompliance are the calls by which gates do not hold, and those that take from the
// score.
func (r *report) aboutCompliance(gates []gate, sel selection, failed failures) {
	for _, g := range gates {
		r.calls = append(r.calls, numbers(g.calls)...)
	}
	for _, calls := range [][]evidence.Call{failed.counted, sel.besides(sel.TooMuch)} {
		r.calls = append(r.calls, numbers(calls)...)
	}
	for _, m := range sel.Missing {
		if m.Nearest != nil {
			r.calls = append(r.calls, sel.calls[m.Nearest.Call].Seq)
		}
	}
	for _, pair := range sel.Pairs {
		if len(pair.Differences) > 0 {
			r.calls = append(r.calls, sel.calls[pair.Call].Seq)
		}
	}
}

// atMost checks a limit of uses.
func (r *report) atMost(limit int, what string, uses []capture.Use) {
	r.check(len(uses) <= limit, "Expected at most %d %s; found %d: %s.", limit, what, len(uses), describe(uses))
}

// namedTools checks which tools, by their exact names, were used and which were not.
func (r *report) namedTools(s *subject, required, forbidden []string) error {
	of := func(tool string) []capture.Use {
		return filter(s.uses, func(use capture.Use) bool { return slices.Contains(use.Names(), tool) })
	}
	for _, tool := range required {
		used := len(of(tool)) > 0
		if !used && s.noTranscript {
			return s.reported(true) // it may be a builtin tool
		}
		r.check(used, "Expected tool %s to be used; it was not. Used: %s.", quote(tool), list(toolNames(s.uses)))
	}
	for _, tool := range forbidden {
		found := of(tool)
		r.check(len(found) == 0, "Expected tool %s not to be used; found %s.", quote(tool), describe(found))
	}
	return nil
}

// expect checks that a use is as p describes it.
func (r *report) expect(p ToolPattern, uses []capture.Use) {
	m := p.compile()
	if len(filter(uses, m.matches)) > 0 {
		r.checks++
		return
	}
	if near := filter(uses, m.named); len(near) > 0 {
		r.check(false, "Expected a call of %s; there was none. Nearest: %s.", p, m.nearest(near))
		return
	}
	r.check(false, "Expected a call of %s; there was none. Used: %s.", p, list(toolNames(uses)))
}

// allowOnly checks that every use of the sources that allowed is about is as one of
// it describes.
func (r *report) allowOnly(allowed []ToolPattern, uses []capture.Use) {
	var matchers []toolMatch
	for _, p := range allowed {
		matchers = append(matchers, p.compile())
	}
	others := filter(uses, func(use capture.Use) bool {
		concerned := false
		for _, m := range matchers {
			if m.matches(use) || m.matches(renamed(use)) {
				return false
			}
			concerned = concerned || m.pattern.covers(use)
		}
		return concerned
	})
	r.check(len(others) == 0, "Expected no call but of %s; found %s.", join(allowed, " or "), describe(others))
}
