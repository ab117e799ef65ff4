package grading

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/defence"
)

// Checks of a text, argument or file from which a secret was removed are undecided: the secret might change
// their result.

// removed returns the error of such a check. missing is errSpoilt for what the agent wrote, since it may have
// written the secret in order to leave the check undecided.
func removed(missing error, names []string, from string) error {
	return fmt.Errorf("%w: waza removed %s from %s", missing, secret.Describe(names), from)
}

// removedAt returns an error if there are spans of removed secrets in a text of the agent.
func removedAt(spans []secret.Span, text, what string) error {
	if len(spans) > 0 || !defence.OnlySpans && strings.Contains(text, secret.Marked("mark")) {
		return removed(errSpoilt, secret.Names(spans), what)
	}
	return nil
}

// outputRemoved returns an error if a secret was removed from the final output or, with all, from the output of any turn.
func outputRemoved(t evidence.Trial, all bool) error {
	marks, text := t.Redacted[evidence.TrialFile].Marks, t.FinalOutput
	spans := marks.Spans(evidence.TextFinalOutput)
	if all {
		spans, text = append(spans, marks.Spans(evidence.TextEarlierOutput)...), t.EarlierOutput+text
	}
	return removedAt(spans, text, "the output")
}

// nameRemoved returns an error if path may be the path of a file from whose name a secret was removed.
func nameRemoved(t evidence.Trial, path string) error {
	if spans := t.Redacted[evidence.WorkspaceFile].Marks.Names(path); len(spans) > 0 {
		return removed(errSpoilt, secret.Names(spans), "the name of a file that may be "+quote(path))
	}
	return nil
}

// givenRemoved returns an error if a secret was removed from the output or the workspace, which are given to
// programs.
func givenRemoved(t evidence.Trial) error {
	if err := outputRemoved(t, false); err != nil {
		return err
	}
	if all := t.Redacted[evidence.WorkspaceFile].Marks; len(all) > 0 {
		return removed(errSpoilt, all[0].Secrets, fmt.Sprintf("%s of the workspace, which the program is given", quote(all[0].In)))
	}
	return nil
}

// shownRemoved returns an error if a secret was removed from calls that are shown to a judge.
func shownRemoved(calls []evidence.Call) error {
	for _, call := range calls {
		if err := argumentsRemoved(call); err != nil {
			return err
		}
		if len(call.ResultMarks) > 0 {
			return removed(errEvidence, call.ResultMarks, "the answer to "+describeCall(call))
		}
	}
	return nil
}

// argumentsRemoved returns an error if a secret was removed from any argument of a call.
func argumentsRemoved(call evidence.Call) error {
	if len(call.Marks) == 0 {
		return nil
	}
	return removed(errSpoilt, slices.Concat(slices.Collect(maps.Values(call.Marks))...), "the arguments of "+describeCall(call))
}

// clearUses returns the uses that the selectors can judge. It records the others as missing: a secret was
// removed from arguments that a selector compares.
func clearUses(r *report, uses []capture.Use, selectors ...selector) []capture.Use {
	return filter(uses, func(use capture.Use) bool {
		for _, sel := range selectors {
			if names := sel.looksAt(use); len(names) > 0 {
				r.lacks(removed(errSpoilt, names, "the arguments of "+describe([]capture.Use{use}).text))
				return false
			}
		}
		return true
	})
}

// looksAt returns the names of secrets that were removed from the arguments that the selector compares.
func (sel selector) looksAt(use capture.Use) (names []string) {
	if len(use.Marks) == 0 || !sel.names(use) {
		return nil
	}
	for _, args := range sel.args {
		names = append(names, args.LooksAt(use.Marks)...)
	}
	return names
}

// clearCalls returns the calls that can be compared with all expected ones. missing is an error if there are
// other calls.
func clearCalls(calls []evidence.Call, expected []match.Expected) (clear []evidence.Call, missing error) {
	clear = filter(calls, func(call evidence.Call) bool {
		for _, e := range expected {
			if names := e.LooksAt(given(call), call.Marks); len(names) > 0 {
				missing = removed(errSpoilt, names, "the arguments of "+describeCall(call))
				return false
			}
		}
		return true
	})
	return clear, missing
}
