package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/trial"
)

// Consult has the judges of all trials asked, grades those anew of which something was
// asked, and takes what it wrote into the record of the run in dir. It returns how many
// questions were put.
func (r Record) Consult(ctx context.Context, dir string, c trial.Consulting) (put int, err error) {
	trials, err := Trials(dir)
	if err != nil {
		return 0, err
	}
	for _, trial := range trials {
		asked, err := c.Ask(ctx, trial)
		put += asked
		if asked > 0 {
			_, failed := grade(trial)
			err = errors.Join(err, r.renew(dir, trial, evidence.StepsFile), failed)
		}
		if err != nil {
			return put, err
		}
	}
	return put, nil
}

// renew takes a file of a trial, and of its checkpoints, into the record of a run that was
// sealed.
func (r Record) renew(dir string, trial evidence.Dir, name string) error {
	if r.Files == nil {
		return nil
	}
	checkpoints, err := fs.Glob(os.DirFS(string(trial)), evidence.CheckpointsDir+"/*/"+name)
	if err != nil {
		return err
	}
	for _, file := range append(checkpoints, name) {
		name, err := filepath.Rel(dir, filepath.Join(string(trial), filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		sum, err := digestIn(dir, name)
		if errors.Is(err, fs.ErrNotExist) { // nothing was answered
			continue
		}
		if err != nil {
			return err
		}
		r.Files[name] = sum
	}
	return r.Write(dir)
}
