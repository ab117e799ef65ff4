package markdown

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// maxReason is how many bytes are shown of why a trial did not pass.
const maxReason = 1500

// failure is how a trial that did not pass ended, and why.
type failure struct{ outcome, reasons string }

// failures tell why trials did not pass, folded.
func (p *page) failures(tasks []results.Task) {
	trials := 0
	all := view.Gather(tasks, func(r results.RunResult) []failure {
		if r.Outcome == evidence.ClassPass {
			return nil
		}
		trials++
		return []failure{{r.Outcome.With(r.Reason), reasons(r)}}
	})
	if trials == 0 {
		return
	}
	p.folded(text.Count(trials, "trial")+" did not pass", func() {
		left := p.fill(roomFailures, len(all), func(i int) string { return failureText(all[i]) })
		more := 0
		for _, f := range all[len(all)-left:] {
			more += len(f.Trials)
		}
		if more > 0 {
			p.printf("%s more.\n\n", text.Count(more, "trial"))
		}
	})
}

// maxNumbers is how many trials of one failure are named.
const maxNumbers = 20

func failureText(f view.Alike[failure]) string {
	which := code(f.Task.TestID)
	switch n := len(f.Trials); {
	case n > 1:
		which += ", trials " + strings.ReplaceAll(strings.Trim(fmt.Sprint(f.Trials[:min(n, maxNumbers)]), "[]"), " ", ", ")
		if n > maxNumbers {
			which += fmt.Sprintf(" and %d more", n-maxNumbers)
		}
	case len(f.Task.Runs) > 1:
		which += fmt.Sprintf(", trial %d", f.Trials[0])
	}
	text := fmt.Sprintf("%s: %s\n\n", which, code(f.What.outcome))
	if f.What.reasons != "" {
		text += pre(f.What.reasons, maxReason) + "\n"
	}
	return text
}

// reasons are as much of all that is said why a trial did not pass as may be shown, which
// says that there is more.
func reasons(r results.RunResult) string {
	beginning, _ := text.Beginning(strings.Join(view.WhyOf(r).Reasons(), "\n"), 2*maxReason)
	return strings.Clone(beginning)
}
