package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Why is why a trial did not pass; it is empty of one that passed. Its texts are
// strangers'.
type Why struct {
	Own     string // what the trial's class rests on, which may name graders; it may be empty
	Against []results.Validation

	deciding evidence.VerdictResult // that puts a trial into its class; empty where no grader does
}

// WhyOf goes by the trial's class. Graders that did not pass it, or a checkpoint that ended
// its conversation, are in the order of their names, those first that decided.
func WhyOf(r results.RunResult) Why {
	if r.Outcome == evidence.ClassPass {
		return Why{}
	}
	w := Why{Own: r.Message}
	switch r.Outcome {
	case evidence.ClassFail:
		w.deciding = evidence.VerdictFail
	case evidence.ClassError:
		w.deciding = evidence.VerdictError
	}
	for _, v := range r.Validations {
		if v.Result != evidence.VerdictPass {
			w.Against = append(w.Against, v)
		}
	}
	for _, c := range r.Checkpoints {
		for _, v := range c.Validations {
			if c.Stopped && v.Result != evidence.VerdictPass {
				v.Identifier += fmt.Sprintf(" after turn %d", c.AfterTurn)
				w.Against = append(w.Against, v)
			}
		}
	}
	slices.SortFunc(w.Against, func(a, b results.Validation) int {
		return cmp.Or(w.rank(a)-w.rank(b), cmp.Compare(a.Identifier, b.Identifier))
	})
	return w
}

func (w Why) rank(v results.Validation) int {
	if v.Result == w.deciding {
		return 0
	}
	return 1
}

// maxWhy is how many columns a line has of a reason.
const maxWhy = 240

// Line is the first reason on one line, of which all can be seen; it may be empty. It is
// what the first grader says that decided, and how many others did not pass the trial; or
// what is said of the trial itself.
func (w Why) Line() string {
	if len(w.Against) == 0 || w.rank(w.Against[0]) > 0 {
		return cutLine(w.Own)
	}
	line := cutLine(said(w.Against[0]))
	if others := len(w.Against) - 1; others > 0 {
		line += fmt.Sprintf(" And %s did not pass.", text.Count(others, "other grader"))
	}
	return line
}

// cutLine is visible text, which takes as much room as it has columns wherever it is shown.
func cutLine(s string) string {
	beginning, _ := text.Beginning(text.FirstLine(s), utf8.UTFMax*maxWhy)
	return text.Fit(text.Visible(beginning), maxWhy)
}

// Reasons are all of them: what is said of the trial itself, and what each grader says.
// Each may have several lines.
func (w Why) Reasons() []string {
	var all []string
	if w.Own != "" {
		all = append(all, w.Own)
	}
	for _, v := range w.Against {
		all = append(all, said(v))
	}
	return all
}

// said is what a grader says, with its name. One that could not judge says so.
func said(v results.Validation) string {
	if v.Result != evidence.VerdictFail {
		return fmt.Sprintf("%s (%s): %s", v.Identifier, v.Result, strings.TrimSpace(v.Feedback))
	}
	return fmt.Sprintf("%s: %s", v.Identifier, strings.TrimSpace(v.Feedback))
}
