package runner

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
)

// repeated returns the run that the new one repeats in part, or dir "". The baseline of a run
// repeats the baseline of the repeated run.
func (q *Request) repeated() (dir string, old Record, err error) {
	dir = q.Repeats
	if dir != "" && q.Baseline {
		if old, err = ReadRecord(dir); err != nil {
			return dir, old, Mistake{err}
		}
		dir = old.Against
	}
	if dir == "" {
		return "", Record{}, nil
	}
	if old, err = ReadRecord(dir); err != nil {
		return dir, old, Mistake{err}
	}
	return dir, old, nil
}

// keep adds the other tasks of the repeated run to r, the record of the new run, if their trials
// have all ended. It adds none if results.json could not describe the trials of both runs.
func (q *Request) keep(r *Record) error {
	dir, old, err := q.repeated()
	if dir == "" || err != nil {
		return err
	}
	var tasks []TaskRecord
	var kept, unended []string
	for _, t := range old.Tasks {
		if at := slices.IndexFunc(r.Tasks, func(own TaskRecord) bool { return own.ID == t.ID }); at >= 0 {
			tasks = append(tasks, r.Tasks[at])
			continue
		}
		switch ended, err := old.ended(dir, t); {
		case err != nil:
			return err
		case !slices.Contains(r.LeftOut, t.ID): // the eval no longer has this task
		case !ended:
			unended = append(unended, t.ID)
		default:
			t.Kept = true
			tasks, kept = append(tasks, t), append(kept, t.ID)
		}
	}
	if len(kept) > 0 {
		key, err := differing(old.described(), r.described())
		if err != nil {
			return err
		}
		if key != "" {
			q.Host.Say(fmt.Sprintf("the new run has only the tasks that are run again, since it differs from %s in %s; to keep the others, give the options of that run", dir, key))
			return nil
		}
		r.Tasks, r.Merged = tasks, append([]string{old.ID}, old.Merged...)
		r.LeftOut = slices.DeleteFunc(slices.Clone(r.LeftOut), func(id string) bool { return slices.Contains(kept, id) })
		q.Host.Say(fmt.Sprintf("keeping %s of %s as in %s", text.Count(r.kept(), "trial"), text.Count(len(kept), "other task"), dir))
	}
	if len(unended) > 0 {
		q.Host.Say(fmt.Sprintf("left out, since not all of their trials ended in %s: %s", dir, text.Inert(strings.Join(text.Few(unended, 8), ", "))))
	}
	return nil
}

// copyKept copies the trials that the run keeps, with their progress. It fails if they have changed
// since their run.
func (e *execution) copyKept() (err error) {
	dir, old, err := e.Request.repeated()
	if err != nil || e.record.kept() == 0 {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, files.RemoveAll(filepath.Join(e.Dir, trialsDir)))
		}
	}()
	kept := map[string]bool{}
	e.left.Kept = map[evidence.TrialID]bool{}
	for id, task := range e.record.trials() {
		if !task.Kept {
			continue
		}
		kept[id.Task], e.left.Kept[id] = true, true
		if err := copyTrial(e.Dir, dir, id); err != nil {
			return err
		}
	}
	sealed := maps.Clone(old.Files)
	maps.DeleteFunc(sealed, func(name, _ string) bool { return !kept[filepath.Base(filepath.Dir(trialOf(name)))] })
	if err := sealed.intact(e.Dir); err != nil {
		return fmt.Errorf("trials of %s cannot be kept: %w; run the eval again", dir, err)
	}
	return mergeProgress(e.Dir, []string{dir}, func(p evidence.Progress) bool { return kept[p.Task] })
}
