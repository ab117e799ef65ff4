package markdown

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// maxReason is how many bytes are shown of why a trial did not pass.
const maxReason = 1500

// failure is one or more trials of a task that did not pass, for the same reasons.
type failure struct {
	task    string
	of      int // trials of the task
	numbers []int
	outcome string
	reasons string
}

// failures tell why trials did not pass, folded.
func (p *page) failures(tasks []results.Task) {
	var all []*failure
	trials := 0
	for _, t := range tasks {
		same := map[string]*failure{}
		for _, r := range t.Runs {
			if r.Outcome == evidence.ClassPass {
				continue
			}
			trials++
			outcome, why := r.Outcome.With(r.Reason), reasons(r)
			f := same[outcome+"\n"+why]
			if f == nil {
				f = &failure{task: t.TestID, of: len(t.Runs), outcome: outcome, reasons: why}
				same[outcome+"\n"+why], all = f, append(all, f)
			}
			f.numbers = append(f.numbers, r.RunNumber)
		}
	}
	if trials == 0 {
		return
	}
	p.folded(text.Count(trials, "trial")+" did not pass", func() {
		left := p.fill(roomFailures, len(all), func(i int) string { return all[i].text() })
		more := 0
		for _, f := range all[len(all)-left:] {
			more += len(f.numbers)
		}
		if more > 0 {
			p.printf("%s more.\n\n", text.Count(more, "trial"))
		}
	})
}

// maxNumbers is how many trials of one failure are named.
const maxNumbers = 20

func (f *failure) text() string {
	which := code(f.task)
	switch n := len(f.numbers); {
	case n > 1:
		which += ", trials " + strings.ReplaceAll(strings.Trim(fmt.Sprint(f.numbers[:min(n, maxNumbers)]), "[]"), " ", ", ")
		if n > maxNumbers {
			which += fmt.Sprintf(" and %d more", n-maxNumbers)
		}
	case f.of > 1:
		which += fmt.Sprintf(", trial %d", f.numbers[0])
	}
	text := fmt.Sprintf("%s: %s\n\n", which, code(f.outcome))
	if f.reasons != "" {
		text += pre(f.reasons, maxReason) + "\n"
	}
	return text
}

// reasons are as much of all that is said why a trial did not pass as may be shown, which
// says that there is more.
func reasons(r results.RunResult) string {
	beginning, _ := text.Beginning(strings.Join(r.Why().Reasons(), "\n"), 2*maxReason)
	return strings.Clone(beginning)
}
