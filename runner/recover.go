package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// Recovered is what the directory of a run that ended early holds.
type Recovered struct {
	// Kept are the trials that have ended with an outcome that counts.
	Kept map[plan.TrialID]Result
	// Damaged says of trials that had ended why they are not among them.
	Damaged []string
	// Complete says that no trial is left to run.
	Complete bool

	again map[plan.TrialID]bool // those that ended, and are to be run again as another attempt
}

// Recover reads what a run left, and grades trials that ended and were not graded; what
// they ask of a judge is asked first.
// A trial counts as ended with its trial.json, which is written last; one that is
// infra, or failed and has attempts left, counts as not run.
func Recover(ctx context.Context, dir string, r Record, c trial.Consulting) (Recovered, error) {
	all := Recovered{Kept: map[plan.TrialID]Result{}, again: map[plan.TrialID]bool{}}
	if err := evidence.RemoveHalfWritten(dir); err != nil {
		return all, err
	}
	lost := false
	for _, task := range r.Tasks {
		for number := 1; number <= r.TrialsOf(task); number++ {
			id := plan.TrialID{Task: task.ID, Number: number}
			result, err := r.recoverTrial(ctx, dir, id, c)
			var damaged *damage
			switch {
			case errors.As(err, &damaged):
				all.Damaged = append(all.Damaged, fmt.Sprintf("trial %s: %s", id, damaged.why))
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return all, fmt.Errorf("trial %s: %w", id, err)
			case result.Verdicts.Class == evidence.ClassInfra:
				all.again[id] = true
			default:
				if result.Earlier, err = result.Dir.Earlier(); err != nil {
					return all, fmt.Errorf("trial %s: %w", id, err)
				}
				if result.Verdicts.Class == evidence.ClassFail && (result.Verdicts.Attack == nil || !result.Verdicts.Attack.Succeeded) && failures(result.Earlier)+1 < r.MaxAttempts && task.Trigger == nil {
					all.again[id] = true // it was interrupted between two attempts
					continue
				}
				all.Kept[id] = result
				lost = lost || result.Verdicts.Class != evidence.ClassPass && task.Trigger == nil
			}
		}
	}
	all.Complete = len(all.Kept) == r.Planned() || r.FailFast && lost
	return all, nil
}

// damage is why a trial that ended does not count.
type damage struct{ why string }

func (d *damage) Error() string { return d.why }

func (r Record) recoverTrial(ctx context.Context, run string, id plan.TrialID, c trial.Consulting) (Result, error) {
	result := Result{Dir: TrialDir(run, id.Task, id.Number)}
	err := evidence.RemoveHalfWritten(string(result.Dir))
	if err != nil {
		return result, err
	}
	result.Trial, err = result.Dir.Trial()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return result, err
	case err != nil:
		return result, &damage{err.Error()}
	case result.Trial.Run != r.ID || result.Trial.Task != id.Task || result.Trial.Number != id.Number:
		return result, &damage{evidence.TrialFile + " is of another trial"}
	}
	if !result.Trial.Class.OfAgent() {
		result.Verdicts.Class = result.Trial.Class // its evidence may be half set aside
		return result, nil
	}
	if err := r.damageIn(run, id); err != nil {
		return result, err
	}
	if result.Verdicts, err = result.Dir.Verdicts(); err == nil && result.Verdicts.Class != "" {
		return result, nil
	}
	if _, err := c.Ask(ctx, result.Dir); err != nil {
		return result, err
	}
	if err := r.renew(run, result.Dir, evidence.StepsFile); err != nil {
		return result, err
	}
	result.Verdicts, err = grade(result.Dir)
	return result, err
}

// damageIn is the first file of a trial that is no longer as the run sealed it.
func (r Record) damageIn(run string, id plan.TrialID) error {
	of := Record{Files: map[string]string{}}
	for name, sum := range r.Files {
		within, ok := strings.CutPrefix(name, path.Join(trialsDir, id.Task, strconv.Itoa(id.Number))+"/")
		if top, _, _ := strings.Cut(within, "/"); ok && !isAside(top) {
			of.Files[name] = sum
		}
	}
	if gone := of.Gone(run); len(gone) > 0 {
		return &damage{gone[0] + " is missing"}
	}
	changed, err := of.Changed(run)
	if len(changed) > 0 {
		return &damage{changed[0] + " was changed after the run"}
	}
	return err
}
