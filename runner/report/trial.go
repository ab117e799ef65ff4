package report

import (
	"github.com/waza-isolate/waza/runner/conversation"
	"github.com/waza-isolate/waza/runner/evidence"
)

// Trial is what is shown of one trial.
type Trial struct {
	conversation.Conversation
	Dir string // of its evidence, as a path from the run directory
}

// Bounds of what is shown of a trial. What is more is left in its files, which are named.
type Bounds struct {
	Text  int // bytes of one text
	Total int // bytes of all texts
	Calls int
}

// ReadTrial reads what is shown of a trial that has ended.
func ReadTrial(dir evidence.Dir, most Bounds) (Trial, error) {
	talk, err := conversation.Read(dir)
	return Trial{Conversation: talk}, err
}

// OfTrial is a trial's page.
func OfTrial(t Trial, l Links) Page {
	path := TrialPath(t.Conversation.Trial.Task, t.Conversation.Trial.Number)
	return Page{ID: l.ID(path), Title: path, name: "trial", data: trialPage{t, l}}
}

type trialPage struct {
	Trial
	Links Links
}
