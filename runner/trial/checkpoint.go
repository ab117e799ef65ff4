package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/plan"
)

// checkpoint grades the trial as it stands after a turn, where the task asks for that. stop
// says that the conversation is to end there.
func (t *talk) checkpoint(ctx context.Context, turn int, said []byte) (stop bool, err error) {
	i := slices.IndexFunc(t.work.plan.Checkpoints, func(c eval.ResolvedCheckpoint) bool { return c.AfterTurn == turn })
	if i < 0 {
		return false, nil
	}
	c := t.work.plan.Checkpoints[i]
	dir := evidence.Dir(t.work.rec.Dir()).Checkpoint(turn)
	if err := t.snapshot(ctx, c, dir, said); err != nil {
		return false, fmt.Errorf("checkpoint after turn %d: %w", turn, err)
	}
	verdicts, err := grading.Grade(dir)
	stop = c.Stop && verdicts.Class != evidence.ClassPass
	t.checkpoints = append(t.checkpoints, evidence.Checkpoint{AfterTurn: turn, Stopped: stop})
	return stop, err
}

// snapshot leaves the trial's evidence up to now in a directory, as that of a trial with the
// checkpoint's graders.
func (t *talk) snapshot(ctx context.Context, c eval.ResolvedCheckpoint, dir evidence.Dir, said []byte) error {
	w := t.work
	rec, err := evidence.Create(string(dir), w.o.Secrets, evidence.StartClock(w.rec.Now()))
	if err != nil {
		return err
	}
	plan := *w.plan
	plan.Graders, plan.Attack, plan.Checkpoints, plan.GraderContainers = c.Graders, nil, nil, nil
	for _, container := range w.plan.GraderContainers {
		if container.Turn == c.AfterTurn {
			container.Turn = 0
			plan.GraderContainers = append(plan.GraderContainers, container)
		}
	}
	at := newRecording(&plan, rec, w.o)
	at.turn, at.shares = c.AfterTurn, w.shares
	at.record.Guarantees, at.record.AgentStart, at.record.AgentEnd = w.record.Guarantees, t.started, rec.Now()
	at.record.Watched = w.record.Watched
	at.record.BetweenTurns = t.clock.paused()
	now := &stage{recording: at, sandbox: w.sandbox, servers: &servers{recording: at, hosts: w.servers.hosts}, found: w.found}
	err = errors.Join(t.take(ctx, now, said), rec.Close())
	if err != nil {
		return err
	}
	at.record.Class, at.record.Reason = "", "" // its graders say what is missing
	at.record.Ended = at.record.AgentEnd
	if _, err := at.writeRecord(dir); err != nil {
		return err
	}
	if plan.Judge == nil {
		return nil
	}
	_, err = Consulting{Connect: w.o.Connect, Secrets: w.o.Secrets}.Ask(ctx, dir)
	return err
}

// take has what was recorded so far in the directory of at, and what its graders ask for.
func (t *talk) take(ctx context.Context, at *stage, said []byte) error {
	if err := t.work.rec.CopyTo(at.rec, at.shares.Agent); err != nil {
		return err
	}
	stdout, err := at.rec.Text(evidence.StdoutFile)
	if err != nil {
		return err
	}
	_, err = stdout.Write(said)
	if err := errors.Join(err, stdout.Close()); err != nil {
		return err
	}
	if cmp.Or(at.plan.Agent.Output, plan.OutputStdout) == plan.OutputStdout {
		at.record.FinalOutput = string(upTo(said, maxFinal))
	}
	if err := (&collector{at}).collect(ctx); err != nil {
		return err
	}
	if err := (&asker{at}).askAll(ctx); err != nil {
		return err
	}
	return (&programs{recording: at.recording}).runAll(ctx)
}
