package grading

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/text"
)

// report collects the checks of one grader.
type report struct {
	checks   int
	failures []string
	notes    []string // sentences that do not fail the grader
	details  map[string]any
	listed   []evidence.Check // also in details
	calls    []int            // numbers of the calls that failures and notes are about
	own      *float64         // score instead of the share of checks that hold
	said     string           // feedback if all checks hold, such as a program's output
	missing  error            // why evidence is missing that checks may need in order to hold; checks that fail anyway still fail
}

// lacks records missing evidence, unless err is nil, and reports whether any is missing. Graders then still
// record failures that the available evidence proves, such as an exceeded limit, and leave out other checks.
func (r *report) lacks(err error) bool {
	if r.missing == nil {
		r.missing = err
	}
	return r.missing != nil
}

// need is like check for something that must exist. If it was not found and evidence is missing, need leaves
// the check out.
func (r *report) need(key string, holds bool, format string, args ...any) {
	if holds || r.missing == nil {
		r.check(key, holds, format, args...)
	}
}

// check records one check under its key in the config. If it does not hold, the sentence is the failure
// message. A semicolon separates the expectation from the finding: "Expected …; …."
func (r *report) check(key string, holds bool, format string, args ...any) {
	f := findingf(format, args...)
	if holds {
		f.got = ""
	}
	r.decide(key, holds, f)
}

// measure is like check with a sentence that is also true if the check holds.
func (r *report) measure(key string, holds bool, format string, args ...any) {
	r.decide(key, holds, findingf(format, args...))
}

// decide counts and lists a check.
func (r *report) decide(key string, holds bool, f finding) {
	r.checks++
	if holds {
		f.calls = nil
		r.list(key, checkPass, f)
		return
	}
	r.calls = append(r.calls, f.calls...)
	r.failures = append(r.failures, f.String())
	f.calls = f.calls[:min(len(f.calls), maxListed)]
	r.list(key, checkFail, f)
}

// note adds a sentence that does not fail the grader.
func (r *report) note(format string, args ...any) {
	r.calls = append(r.calls, mentioned(args)...)
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *report) result() evidence.VerdictResult {
	if len(r.failures) > 0 {
		return evidence.VerdictFail
	}
	return evidence.VerdictPass
}

// score returns the share of checks that hold, unless the grader sets its own score.
func (r *report) score() float64 {
	if r.own != nil {
		return *r.own
	}
	if r.checks == 0 {
		return 1
	}
	return float64(r.checks-len(r.failures)) / float64(r.checks)
}

// feedback returns the failures, or a sentence that all checks hold, followed by the notes. A sentence that
// begins with a newline starts a line.
func (r *report) feedback() string {
	sentences := atMost(r.failures)
	switch {
	case len(r.failures) > 0:
	case r.said != "":
		sentences = []string{r.said}
	case r.checks == 1:
		sentences = []string{"The check holds."}
	default:
		sentences = []string{fmt.Sprintf("All %d checks hold.", r.checks)}
	}
	return strings.ReplaceAll(strings.Join(append(sentences, atMost(r.notes)...), " "), " \n", "\n")
}

// maxSentences is the maximum number of failures, and of notes, in feedback. Graders put the most important
// ones first.
const maxSentences = 20

func atMost(sentences []string) []string {
	if len(sentences) <= maxSentences {
		return sentences
	}
	left := len(sentences) - maxSentences
	return append(slices.Clone(sentences[:maxSentences]), fmt.Sprintf("And %d more.", left))
}

// join lists things for a sentence.
func join[T fmt.Stringer](things []T, between string) string {
	return strings.Join(mapped(things, T.String), between)
}

// maxShown is the maximum number of list entries in a sentence.
const maxShown = 8

// list lists names for a sentence: quoted, in order, at most maxShown.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return listOf(names, quote)
}

// maxQuoted is the maximum number of bytes of foreign text in a sentence.
const maxQuoted = 100

func quote(s string) string { return text.Quote(s, maxQuoted) }

// clip shortens text that is shown without quotes, such as JSON.
func clip(s string) string { return text.Shorten(s, maxQuoted) }

// listOf lists things for a sentence: at most maxShown of them.
func listOf[T any](all []T, describe func(T) string) string {
	return strings.Join(text.Some(all, maxShown, describe), ", ")
}

func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }

// mention is a description of calls for a sentence, with the numbers of the calls.
type mention struct {
	text  string
	calls []int
}

func (m mention) String() string { return m.text }

// mentioned returns the numbers of the calls that are mentioned in a sentence's arguments.
func mentioned(args []any) (calls []int) {
	for _, arg := range args {
		if m, ok := arg.(mention); ok {
			calls = append(calls, m.calls...)
		}
	}
	return calls
}

// described returns the details together with the listed checks and the numbers of the calls that the report
// is about.
func (r *report) described() map[string]any {
	if len(r.calls)+len(r.listed) == 0 {
		return r.details
	}
	if r.details == nil {
		r.details = map[string]any{}
	}
	if len(r.listed) > 0 {
		r.details[evidence.DetailChecks] = failedFirst(r.listed)
	}
	if len(r.calls) > 0 {
		slices.Sort(r.calls)
		calls := slices.Compact(r.calls)
		r.details[evidence.DetailCalls] = calls[:min(len(calls), maxListed)]
	}
	return r.details
}

// captured returns the numbers of the captured calls among uses.
func captured(uses []capture.Use) (calls []int) {
	for _, use := range uses {
		if use.Call != nil {
			calls = append(calls, use.Call.Seq)
		}
	}
	return calls
}

// atMost checks an upper limit on the number of uses.
func (r *report) atMost(key string, limit int, what string, uses []capture.Use) {
	used := describe(uses)
	if len(uses) > 0 {
		used.text = ": " + used.text
	}
	r.measure(key, len(uses) <= limit, "Expected at most %d %s; found %d%s.", limit, what, len(uses), used)
}
