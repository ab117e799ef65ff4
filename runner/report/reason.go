package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/visible"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/results"
)

// maxReason is how many columns of a reason are shown.
const maxReason = 240

// reason says in a sentence why a trial did not pass: what the first grader says that it
// did not please, or what broke. It is empty of one that passed.
func reason(r results.RunResult) string {
	var wanted evidence.VerdictResult
	switch r.Outcome {
	case evidence.ClassPass:
		return ""
	case evidence.ClassFail:
		wanted = evidence.VerdictFail
	case evidence.ClassError:
		wanted = evidence.VerdictError
	}
	first, more := "", 0
	for _, name := range slices.Sorted(maps.Keys(r.Validations)) {
		switch v := r.Validations[name]; {
		case v.Result != wanted:
		case first == "":
			first = name + ": " + firstLine(v.Feedback)
		default:
			more++
		}
	}
	why := visible.Cut(cmp.Or(first, firstLine(cmp.Or(r.Message, r.Outcome.With(r.Reason)))), maxReason)
	if more > 0 {
		why += fmt.Sprintf(" And %s did not pass.", several(more, "other grader"))
	}
	return why
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
