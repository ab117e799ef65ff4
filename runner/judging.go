package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/grading"
)

// Judge is a model that answers what graders ask. An error says what a person can do;
// the questions of a trial that have no answer leave its graders without evidence.
type Judge interface {
	Answer(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error)
}

// Consulting is how judges are asked. Connect and Secrets are required.
type Consulting struct {
	Connect func(evidence.Judge) (Judge, error)
	Secrets *redact.Set
	Again   bool // also what was answered
}

// ask has its judge answer what the graders of a trial that has ended ask, and puts
// the answers on its record: where there is none that a grader can read, or, again,
// every one anew. It returns how many questions were put. When ctx ends, what is not
// answered is left to another time.
func (c Consulting) ask(ctx context.Context, dir evidence.Dir) (put int, err error) {
	record, err := dir.Trial()
	if err != nil || record.Judge == nil {
		return 0, err
	}
	for _, checkpoint := range record.Checkpoints {
		asked, err := c.ask(ctx, dir.Checkpoint(checkpoint.AfterTurn))
		put += asked
		if err != nil {
			return put, err
		}
	}
	questions, err := grading.Questions(dir)
	if err != nil {
		return put, err
	}
	if !c.Again {
		questions = slices.DeleteFunc(questions, func(q grading.Question) bool { return q.Answered })
	}
	if len(questions) == 0 {
		return put, nil
	}
	judge, err := c.Connect(*record.Judge)
	if err != nil {
		return put, err
	}
	return put + len(questions), c.put(ctx, dir, judge, questions)
}

// put puts questions to a judge, side by side.
func (c Consulting) put(ctx context.Context, dir evidence.Dir, judge Judge, questions []grading.Question) error {
	var asking sync.WaitGroup
	var mu sync.Mutex
	var errs []error // guarded by mu
	for _, q := range questions {
		asking.Go(func() {
			answer, err := judge.Answer(ctx, q.Ask)
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, addStep(dir, q, answer, err, c.Secrets))
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return errors.Join(errs...)
}

// addStep puts what came of a question on record. The question itself is made of what
// is on record already.
func addStep(dir evidence.Dir, q grading.Question, answer evidence.JudgeAnswer, failed error, secrets *redact.Set) error {
	raw, err := q.Raw()
	if err != nil {
		return err
	}
	step := evidence.Step{Grader: q.Grader, Kind: evidence.StepJudge, Ask: raw}
	if failed != nil {
		step.Error = secrets.String(failed.Error())
		return dir.AddStep(step)
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	step.Answer, _ = secrets.JSON(data)
	return dir.AddStep(step)
}

// Consult has the judges of all trials asked, grades those anew of which something was
// asked, and takes what it wrote into the record of the run in dir. It returns how many
// questions were put.
func (r Record) Consult(ctx context.Context, dir string, c Consulting) (put int, err error) {
	trials, err := Trials(dir)
	if err != nil {
		return 0, err
	}
	for _, trial := range trials {
		asked, err := c.ask(ctx, trial)
		put += asked
		if asked > 0 {
			err = errors.Join(err, r.renew(dir, trial, evidence.StepsFile), grade(trial))
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
