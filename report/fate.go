package report

import (
	"slices"

	"github.com/waza-isolate/waza/results"
)

// fate is something that became of a server, in the same words in these trials.
type fate struct {
	Mark   Mark
	Why    string
	Trials []trialName
}

// trialName names a trial for a person and for a link.
type trialName struct {
	Task, Name string
	Number     int
}

// fewTrials is how many trials of a fate are named.
const fewTrials = 4

// Named are the first of the trials, and More counts the others.
func (f fate) Named() []trialName { return f.Trials[:min(len(f.Trials), fewTrials)] }

func (f fate) More() int { return len(f.Trials) - len(f.Named()) }

// became is what became of a server: changes of its tools, what was not as it is pinned,
// and ends.
func became(server string, tasks []results.Task) (all []fate) {
	at := map[fateKey]int{}
	add := func(trial trialName, mark Mark, said []string) {
		for _, why := range said {
			i, known := at[fateKey{mark, why}]
			if !known {
				i = len(all)
				at[fateKey{mark, why}], all = i, append(all, fate{Mark: mark, Why: why})
			}
			all[i].Trials = append(all[i].Trials, trial)
		}
	}
	for _, task := range tasks {
		for _, run := range task.Runs {
			i := slices.IndexFunc(run.Servers, func(s results.ServerReport) bool { return s.Name == server })
			if i < 0 {
				continue
			}
			trial, s := trialName{task.TestID, task.DisplayName, run.RunNumber}, run.Servers[i]
			add(trial, Mark{"broke", "rug pull", "warn"}, s.RugPulls)
			add(trial, Mark{"broke", "not as pinned", "warn"}, s.Unpinned)
			add(trial, Mark{"error", "ended", "warn"}, s.Ends)
		}
	}
	return all
}

type fateKey struct {
	mark Mark
	why  string
}
