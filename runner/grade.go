package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/trial"
)

// Regrading is a request to grade a completed run again from its evidence.
type Regrading struct {
	Dir string // run directory
	// Ask asks judges the questions that have no answer, or with Again all questions.
	Ask, Again bool
	// Snapshots is the path of an eval whose snapshots are overwritten with files of the run;
	// may be empty. The record's path is not used, since the run may come from someone else.
	Snapshots string

	Host Host
}

// Regrade repeats every verdict of a run from its directory and writes results and reports. It
// holds the directory meanwhile. It needs no engine, agent or server.
func Regrade(ctx context.Context, r Regrading) (Outcome, error) {
	record, held, err := holdEnded(r.Dir)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = held.Close() }()
	if err := r.warnOfChanges(record); err != nil {
		return Outcome{}, err
	}
	snapshots, err := r.snapshots(record)
	if err != nil {
		return Outcome{}, err
	}
	if err := r.gradeTrials(ctx, record, snapshots); err != nil {
		return Outcome{}, err
	}
	if snapshots == nil {
		r.warnOfGraders(record)
	}
	out, err := record.conclude(r.Dir)
	if out.Results.Timestamp.IsZero() { // nothing was written
		return Outcome{}, err
	}
	return out, err
}

// holdEnded holds the run in dir until held is closed, and reads its record. It fails if all
// trials of the run are missing, whose results would be overwritten.
func holdEnded(dir string) (record Record, held io.Closer, err error) {
	record, held, err = holdRun(dir)
	if err != nil {
		return record, nil, err
	}
	emptied, err := record.Files.Emptied(dir)
	if emptied {
		err = mistake("%s: all trials of the run are missing, so its results are not changed", dir)
	}
	if err != nil {
		return record, nil, errors.Join(err, held.Close())
	}
	return record, held, nil
}

// warnOfChanges warns of evidence that has changed since the run.
func (r Regrading) warnOfChanges(record Record) error {
	WarnOfGone(r.Dir, record, r.Host.Warn)
	changed, err := record.Files.Changed(r.Dir)
	for _, name := range changed {
		r.Host.Warn(fmt.Errorf("%s was changed after the run", text.Inert(name)))
	}
	return err
}

// warnOfGraders warns about tasks whose graders in the eval differ from those that the run
// recorded, which grading uses. It looks for the eval only below the current directory, since the
// run may come from someone else.
func (r Regrading) warnOfGraders(record Record) {
	if !filepath.IsLocal(record.Eval.Path) {
		return
	}
	e, tasks, err := r.load(record.Eval.Path, record)
	if err != nil || e.Name != record.Eval.Name {
		return // moved, or being edited
	}
	var changed []string
	for _, task := range tasks {
		trial, err := TrialDir(r.Dir, task.ID, 1).Trial()
		if _, redacted := trial.Redacted[evidence.TrialFile]; err == nil && !redacted && !sameJSON(task.Graders, trial.Graders) {
			changed = append(changed, text.Inert(task.ID))
		}
	}
	if len(changed) > 0 {
		r.Host.Warn(fmt.Errorf("graders of %s have changed since the run, which is graded by those that it recorded: to judge by the new ones, run the eval again", strings.Join(text.Few(changed, 8), ", ")))
	}
}

func sameJSON(a, b any) bool {
	one, errOne := json.Marshal(a)
	other, errOther := json.Marshal(b)
	return errors.Join(errOne, errOther) == nil && bytes.Equal(one, other)
}

// load reads an eval as the run read its own.
func (r Regrading) load(path string, record Record) (*eval.Eval, []eval.ResolvedTask, error) {
	return eval.Load(path, eval.Options{
		CheckScript: r.Host.CheckScript, CheckModelScript: r.Host.CheckModelScript, Local: !record.Isolated,
		Executor: record.Executor, Model: record.Model, NoSkills: true, UpdateSnapshots: true,
	})
}

// WarnOfGone warns of missing evidence of the run in dir.
func WarnOfGone(dir string, record Record, warn func(error)) {
	for _, name := range record.Files.Gone(dir) {
		warn(fmt.Errorf("%s is missing", text.Inert(name)))
	}
}

// gradeTrials asks judges and writes snapshots, if requested, and grades every trial. It
// updates the record's digests of files that this changes.
func (r Regrading) gradeTrials(ctx context.Context, record Record, snapshots *Snapshots) error {
	put := 0
	if r.Ask {
		defer func() { r.Host.Say(fmt.Sprintf("questions put to the judge: %d", put)) }()
	}
	consulting := trial.Consulting{Connect: r.Host.Recorded, Secrets: r.Host.Secrets, Again: r.Again}
	trials, err := Trials(r.Dir)
	if err != nil {
		return err
	}
	for _, dir := range trials {
		trial, err := dir.Trial()
		if err != nil {
			return err
		}
		if r.Ask {
			asked, err := consulting.Ask(ctx, dir, trial)
			put += asked
			if asked > 0 {
				err = errors.Join(err, record.renew(r.Dir, dir, evidence.StepsFile))
			}
			if err != nil {
				_, failed := grade(dir, trial) // by the answers so far
				return errors.Join(err, failed)
			}
		}
		if snapshots != nil {
			took, err := snapshots.take(dir, trial)
			if took {
				err = errors.Join(err, record.renew(r.Dir, dir, evidence.TrialFile))
			}
			if err != nil {
				return err
			}
		}
		if _, err := grade(dir, trial); err != nil {
			return err
		}
	}
	return nil
}

// snapshots returns the snapshots to overwrite, or nil.
func (r Regrading) snapshots(record Record) (*Snapshots, error) {
	if r.Snapshots == "" {
		return nil, nil
	}
	e, tasks, err := r.load(r.Snapshots, record)
	if err != nil {
		return nil, Mistake{err}
	}
	r.Host.Notice(e.Warnings)
	if e.Name != record.Eval.Name {
		return nil, mistake("the run is of the eval %q, and %s is the eval %q", record.Eval.Name, r.Snapshots, e.Name)
	}
	return newSnapshots(e, tasks, r.Host.Say), nil
}

// grade grades a trial from its evidence in dir, and writes the verdicts there.
func grade(dir evidence.Dir, trial evidence.Trial) (evidence.Verdicts, error) {
	verdicts, err := grading.Grade(dir, trial)
	if err != nil {
		return verdicts, err
	}
	return verdicts, dir.WriteVerdicts(verdicts)
}

// Snapshots overwrites the snapshots of diff graders with files of trials' workspaces. The
// first trial with a file determines its snapshot, and the other trials are compared with that.
type Snapshots struct {
	eval  *eval.Eval
	names map[string]bool // the eval's snapshots; names in run directories are not trusted
	say   func(string)

	mu    sync.Mutex
	taken map[string][]byte // guarded by mu
}

// newSnapshots returns a writer for the snapshots of an eval and its tasks. say is called for
// each snapshot that is written.
func newSnapshots(e *eval.Eval, tasks []eval.ResolvedTask, say func(string)) *Snapshots {
	s := &Snapshots{eval: e, names: map[string]bool{}, say: say, taken: map[string][]byte{}}
	add := func(graders []evidence.GraderSpec) {
		for _, g := range graders {
			if g.Type == "diff" {
				for name := range g.Files {
					s.names[name] = true
				}
			}
		}
	}
	for _, task := range tasks {
		add(task.Graders)
		for _, checkpoint := range task.Checkpoints {
			add(checkpoint.Graders)
		}
	}
	return s
}

// take updates a trial's diff graders to the new snapshots, and reports whether it has any.
// Trials that did not complete change no snapshot.
func (s *Snapshots) take(dir evidence.Dir, trial evidence.Trial) (took bool, err error) {
	if trial.Class != "" {
		return false, nil
	}
	for _, checkpoint := range trial.Checkpoints {
		at := dir.Checkpoint(checkpoint.AfterTurn)
		then, err := at.Trial()
		if err != nil {
			return took, err
		}
		in, err := s.take(at, then)
		if took = took || in; err != nil {
			return took, err
		}
	}
	var own bool
	for _, grader := range trial.Graders {
		left := grading.Snapshots(dir, grader)
		for _, name := range slices.Sorted(maps.Keys(left)) {
			own = true
			if grader.Files[name], err = s.write(name, left[name], trial); err != nil {
				return took, err
			}
		}
	}
	if !own {
		return took, nil
	}
	return true, dir.WriteTrial(trial)
}

// write writes a snapshot, unless another trial has, and returns its content.
func (s *Snapshots) write(name string, content []byte, trial evidence.Trial) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken, ok := s.taken[name]; ok {
		return taken, nil
	}
	if !s.names[name] {
		return nil, fmt.Errorf("the run has a snapshot %q and the eval has none of that name", name)
	}
	status, err := s.eval.WriteSnapshot(name, content)
	if err != nil {
		return nil, err
	}
	s.taken[name] = content
	s.say(fmt.Sprintf("snapshot %s %s, from %s/%d", name, status, trial.Task, trial.Number))
	return content, nil
}
