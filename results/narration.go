package results

import (
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
