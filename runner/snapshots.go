package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// Snapshots writes what trials leave in their workspaces over the snapshots that diff
// graders compare with. Of several trials the first that leaves a file decides, and the
// others are compared with that.
type Snapshots struct {
	eval  *eval.Eval
	names map[string]bool // of the eval's snapshots: a run directory may be a stranger's
	say   func(string)

	mu    sync.Mutex
	taken map[string][]byte // guarded by mu
}

// NewSnapshots writes the snapshots of an eval and its tasks, and says which.
func NewSnapshots(e *eval.Eval, tasks []eval.ResolvedTask, say func(string)) *Snapshots {
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

// take has the diff graders of a trial that ended compare with what snapshots are now, and
// reports whether it has any. One that broke changes no snapshot.
func (s *Snapshots) take(dir evidence.Dir) (took bool, err error) {
	trial, err := dir.Trial()
	if err != nil || trial.Class != "" {
		return false, err
	}
	for _, checkpoint := range trial.Checkpoints {
		in, err := s.take(dir.Checkpoint(checkpoint.AfterTurn))
		if took = took || in; err != nil {
			return took, err
		}
	}
	var own bool
	for _, grader := range trial.Graders {
		left := grading.Snapshots(dir, grader)
		for _, name := range slices.Sorted(maps.Keys(left)) {
			own = true
			if grader.Files[name], err = s.one(name, left[name], trial); err != nil {
				return took, err
			}
		}
	}
	if !own {
		return took, nil
	}
	return true, dir.WriteTrial(trial)
}

// one writes a snapshot, unless another trial did, and returns what it is.
func (s *Snapshots) one(name string, content []byte, trial evidence.Trial) ([]byte, error) {
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

// UpdateSnapshots writes the snapshots of the run in dir, and takes the trials that compare
// with them into its record. They are to be graded anew.
func (r Record) UpdateSnapshots(dir string, s *Snapshots) error {
	trials, err := Trials(dir)
	if err != nil {
		return err
	}
	for _, trial := range trials {
		took, err := s.take(trial)
		if took {
			err = errors.Join(err, r.renew(dir, trial, evidence.TrialFile))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
