package view

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// Run is what is shown of a run beside its trials' evidence.
type Run struct {
	Dir         string // as its reader knows it
	ID          string
	Eval        string // the eval's file
	EvalSHA256  string
	Waza, Build string // our version, and the beginning of our executable's SHA-256
	Started     time.Time
	Ended       time.Time // zero while it is at work, or where it never came to its end
	Interrupted bool
	AtWork      bool // somebody is at it
	FailFast    bool // it was to end with the first trial that does not pass
	Planned     int  // trials
	Isolated    bool
	Network     string
	Guarantees  *evidence.Guarantees
	Certificate *evidence.Certificate // nil without any
	Engine      map[string]string
	Images      []Image
	Inputs      []Input
	Made        []results.Setting // what may tell it from runs that it is compared with
	Results     results.Results
}

// Image is an image that the run's containers were made of.
type Image struct{ Ref, ID string }

// Input is a file that the run read, by its SHA-256.
type Input struct{ Path, SHA256 string }

// Trials is how many trials of the run have an outcome.
func (r Run) Trials() (n int) {
	for _, task := range r.Results.Tasks {
		n += len(task.Runs)
	}
	return n
}
