package trial

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/runner/plan"
)

// Judge is a model that answers graders' questions. Its errors say what the user can do;
// graders whose questions are not answered lack evidence.
type Judge interface {
	Answer(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error)
}

// JudgeOf returns how a trial gets its judge: from its cassette, or with connect.
func JudgeOf(t *plan.Trial, connect func(evidence.Judge) (Judge, error)) func(evidence.Judge) (Judge, error) {
	if t.Judged == nil {
		return connect
	}
	return func(evidence.Judge) (Judge, error) { return &playedJudge{t.Judged.Play(), t.Number}, nil }
}

// playedJudge is a judge that answers from a cassette. A recorded request has the fields of a
// question, and the trial's number. Values are of type [evidence.JudgeAnswer].
type playedJudge struct {
	answers *cassette.Player
	trial   int
}

// Answer implements Judge. Its error is a [*cassette.Miss] if the cassette has no answer.
func (j *playedJudge) Answer(_ context.Context, ask evidence.JudgeAsk) (answer evidence.JudgeAnswer, err error) {
	data, err := jsontext.Marshal(ask)
	if err != nil {
		return answer, err
	}
	asked, _ := jsontext.Decode(data).(map[string]any)
	asked["trial"] = json.Number(strconv.Itoa(j.trial))
	given, miss := j.answers.Ask("", asked)
	if miss != nil {
		return answer, miss
	}
	err = jsontext.Unmarshal(given.Value, &answer)
	return answer, err
}

// Consulting controls how judges are asked. Connect and Secrets are required.
type Consulting struct {
	Connect func(evidence.Judge) (Judge, error)
	Secrets *secret.Set
	Again   bool // ask again what was answered
}

// Ask has the judge answer the questions of a completed trial's graders, and records the
// answers in the trial's directory. Questions with a readable answer are skipped unless Again
// is set. It returns how many questions were asked. When ctx is done, remaining questions are
// left unanswered.
func (c Consulting) Ask(ctx context.Context, dir evidence.Dir, t evidence.Trial) (put int, err error) {
	if t.Judge == nil {
		return 0, nil
	}
	for _, checkpoint := range t.Checkpoints {
		at := dir.Checkpoint(checkpoint.AfterTurn)
		then, err := at.Trial()
		if err != nil {
			return put, err
		}
		asked, err := c.Ask(ctx, at, then)
		put += asked
		if err != nil {
			return put, err
		}
	}
	questions, err := grading.Questions(dir, t)
	if err != nil {
		return put, err
	}
	if !c.Again {
		questions = slices.DeleteFunc(questions, func(q grading.Question) bool { return q.Answered })
	}
	if len(questions) == 0 {
		return put, nil
	}
	judge, err := c.Connect(*t.Judge)
	if err != nil {
		return put, err
	}
	return put + len(questions), c.put(ctx, dir, judge, questions)
}

// put asks a judge several questions in parallel.
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

// addStep records the answer to a question, or why there is none. The question itself comes
// from redacted evidence.
func addStep(dir evidence.Dir, q grading.Question, answer evidence.JudgeAnswer, failed error, secrets *secret.Set) error {
	step, err := newStep(grading.Ask{Grader: q.Grader, Kind: evidence.StepJudge, What: q.Ask}, answer, failed)
	if err != nil {
		return err
	}
	step, _ = step.Cleaned(secrets)
	return dir.AddStep(step)
}
