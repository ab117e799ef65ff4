package markdown

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/results"
)

// maxReason is how many bytes are shown of why a trial did not pass.
const maxReason = 1500

// failure is a trial that did not pass.
type failure struct {
	task string
	of   int // trials of the task
	results.RunResult
}

// failures tell why trials did not pass, folded.
func (p *page) failures(tasks []results.Task) {
	var all []failure
	for _, t := range tasks {
		for _, r := range t.Runs {
			if r.Outcome != evidence.ClassPass {
				all = append(all, failure{t.TestID, len(t.Runs), r})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	p.folded(plural(len(all), "trial")+" did not pass", func() {
		if left := p.fill(roomFailures, len(all), func(i int) string { return all[i].text() }); left > 0 {
			p.printf("%s more.\n\n", plural(left, "trial"))
		}
	})
}

func (f failure) text() string {
	which := code(f.task)
	if f.of > 1 {
		which += fmt.Sprintf(", trial %d", f.RunNumber)
	}
	return fmt.Sprintf("%s: %s\n\n%s\n", which, code(f.Outcome.With(f.Reason)), pre(f.reasons(), maxReason))
}

// reasons are what the graders say that the trial did not pass, or its own where none does.
func (f failure) reasons() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.Validations)) {
		if v := f.Validations[name]; v.Result != evidence.VerdictPass {
			fmt.Fprintf(&out, "%s: %s\n", v.Identifier, v.Feedback)
		}
	}
	if out.Len() == 0 || f.Outcome != evidence.ClassFail {
		return f.Message + "\n" + out.String()
	}
	return out.String()
}
