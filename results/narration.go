package results

import (
	"fmt"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Narration is what the agent tells of its calls, held against them.
type Narration struct {
	Sentences []string `json:"sentences,omitempty"` // where they differ, in words
	evidence.Narration
}

func narration(trial Trial) *Narration {
	if trial.Narration == nil {
		return nil
	}
	n := Narration{Sentences: capture.Tell(*trial.Narration, trial.Calls).All(), Narration: *trial.Narration}
	n.Tools = nil // narration.json has the names that were compared
	return &n
}

// Narrations says, a line for each, where agents tell of calls otherwise than they
// were. It holds agents' own words.
func (r Results) Narrations() []string {
	var lines []string
	for _, task := range r.Tasks {
		for _, run := range task.Runs {
			if run.Narration == nil {
				continue
			}
			for _, sentence := range run.Narration.Sentences {
				lines = append(lines, fmt.Sprintf("%s/%d %s", task.TestID, run.RunNumber, sentence))
			}
		}
	}
	return lines
}
