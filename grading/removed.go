package grading

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/defence"
)

// A check of a text, an argument or a file from which a secret was removed has no answer: with the secret
// it might have another.

// removed returns the error of such a check. From what the agent wrote the agent may have it removed.
func removed(missing error, names []string, from string) error {
	return fmt.Errorf("%w: %s was removed from %s", missing, secret.Describe(names), from)
}

// removedAt returns an error if there are spans in a text of the agent.
func removedAt(spans []secret.Span, text, what string) error {
	if len(spans) > 0 || !defence.OnlySpans && strings.Contains(text, secret.Marked("mark")) {
		return removed(errSpoilt, secret.Names(spans), what)
	}
	return nil
}

// marks returns where secrets were removed from a file of the trial.
func (s *subject) marks(file string) secret.Marks { return s.trial.Redacted[file].Marks }

// outputRemoved returns an error if a secret was removed from the final output, or of all turns from any.
func (s *subject) outputRemoved(all bool) error {
	marks, text := s.marks(evidence.TrialFile), s.trial.FinalOutput
	spans := marks.Spans(evidence.TextFinalOutput, false)
	if all {
		spans, text = append(spans, marks.Spans(evidence.TextEarlierOutput, false)...), s.trial.EarlierOutput+text
	}
	return removedAt(spans, text, "the output")
}

// nameRemoved returns an error if a file whose name had a secret may be that of a path.
func (s *subject) nameRemoved(path string) error {
	if spans := s.marks(evidence.WorkspaceFile).Names(path); len(spans) > 0 {
		return removed(errSpoilt, secret.Names(spans), "the name of a file that may be "+quote(path))
	}
	return nil
}

// givenRemoved returns an error if a program that is given the output and the workspace lacks a secret of these.
func (s *subject) givenRemoved() error {
	if err := s.outputRemoved(false); err != nil {
		return err
	}
	if all := s.marks(evidence.WorkspaceFile); len(all) > 0 {
		return removed(errSpoilt, all[0].Secrets, fmt.Sprintf("%s of the workspace, which the program is given", quote(all[0].In)))
	}
	return nil
}

// shownRemoved returns an error if a secret was removed from calls that a judge is shown.
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
	var names []string
	for _, argument := range sortedKeys(call.Marks) {
		names = append(names, call.Marks[argument]...)
	}
	if len(call.Marks) == 0 {
		return nil
	}
	return removed(errSpoilt, distinct(names, strings.Clone), "the arguments of "+describeCall(call))
}

// clear returns the uses that selectors can judge: those in whose arguments they look at no secret.
func (r *report) clear(uses []capture.Use, selectors ...selector) []capture.Use {
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

// looksAt returns the names of secrets in what the selector looks at in a use.
func (sel selector) looksAt(use capture.Use) (names []string) {
	if len(use.Marks) == 0 || !sel.names(use) {
		return nil
	}
	for _, args := range sel.args {
		names = append(names, args.LooksAt(use.Marks)...)
	}
	return names
}

// clear returns the calls that entries of expect_tools_used can judge, and an error if there are others.
func (c *ComplianceConfig) clear(calls []evidence.Call) (clear []evidence.Call, missing error) {
	return filter(calls, func(call evidence.Call) bool {
		for _, e := range c.expected {
			if names := e.LooksAt(given(call), call.Marks); len(names) > 0 {
				missing = removed(errSpoilt, names, "the arguments of "+describeCall(call))
				return false
			}
		}
		return true
	}), missing
}
