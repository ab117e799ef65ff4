package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// figures counts what the trial took.
func (r *course) figures() Figures {
	f := Figures{Calls: len(r.calls)}
	for _, call := range r.calls {
		if call.Outcome.Failed() {
			f.Failed++
		}
	}
	var input, output int64
	known, cost, priced := true, 0.0, true
	for _, step := range r.talk.Steps {
		if step.Own != nil {
			f.Own++
		}
		if step.Turn == nil {
			continue
		}
		f.Turns++
		f.addModel(step.Turn)
		if u := step.Turn.Usage; u != nil {
			input, output = input+u.Input, output+u.Output
		} else {
			known = false
		}
		if step.Turn.Cost != nil {
			cost += *step.Turn.Cost
		} else {
			priced = false
		}
	}
	switch n := r.talk.Narration; {
	case f.Turns > 0 && known:
		f.Input, f.Output = &input, &output
	case f.Turns == 0 && n != nil && n.Tokens != nil:
		f.Input, f.Output, f.ByAgent = &n.Tokens.Told.Input, &n.Tokens.Told.Output, true
	}
	if f.Turns > 0 && priced {
		f.Cost = &cost
	}
	t := r.talk.Trial
	f.Unseen = !r.talk.Gateway && f.Turns == 0 && !asksNobody(t.Executor)
	if !t.AgentStart.IsZero() && t.AgentEnd.After(t.AgentStart) {
		f.Agent, _ = t.AgentTime()
	}
	if t.Ended.After(t.Started) {
		f.Whole = t.Ended.Sub(t.Started)
	}
	return f
}

// asksNobody says whether an executor asks no model.
func asksNobody(executor string) bool { return executor == "mock" || executor == "script" }

// maxModels is how many models are named.
const maxModels = 4

func (f *Figures) addModel(t *conversation.Turn) {
	model := brief(t.Model, nameSize)
	if model != "" && len(f.Models) < maxModels && !slices.Contains(f.Models, model) {
		f.Models = append(f.Models, model)
	}
}

// ending says how the agent ended.
func ending(t evidence.Trial) string {
	switch {
	case t.Signal != "":
		return "the agent was ended by " + t.Signal
	case t.ExitCode != nil:
		return fmt.Sprintf("the agent exited with code %d", *t.ExitCode)
	}
	return "the agent ended"
}

// siblings are the trials of the same task before and behind one, of those that have
// ended.
func siblings(dir evidence.Dir, number int) (previous, next int) {
	task := filepath.Dir(string(dir))
	entries, err := os.ReadDir(task)
	if err != nil {
		return 0, 0
	}
	for _, entry := range entries {
		n, err := strconv.Atoi(entry.Name())
		if err != nil || n < 1 || n == number || !isTrial(filepath.Join(task, entry.Name())) {
			continue
		}
		if n < number {
			previous = max(previous, n)
		} else if next == 0 || n < next {
			next = n
		}
	}
	return previous, next
}

func isTrial(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, evidence.TrialFile))
	return err == nil
}
