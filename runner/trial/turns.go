package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/plan"
)

// turnHandler runs between two turns of a trial: it grades the trial if the task has a checkpoint
// there, and determines the next prompt. The agent's clock is paused meanwhile.
type turnHandler struct {
	work    *agentWork
	clock   *agentClock
	started time.Time

	mu          sync.Mutex            // held between turns
	turns       int                   // completed turns; guarded by mu
	checkpoints []evidence.Checkpoint // guarded by mu
	err         error                 // error of the runner; guarded by mu

	responder *evidence.Responder // nil until it is first asked; guarded by mu
	exchanges []grading.Exchange  // the conversation as the responder sees it; guarded by mu
	earlier   string              // the agent's messages before this turn, with secrets replaced; guarded by mu
	silence   failure             // why the agent got no reply; guarded by mu
}

// turnEnded is called at the end of a turn with the agent's stdout so far. It returns the next
// prompt; ok is false if there is none.
func (t *turnHandler) turnEnded(ctx context.Context, said []byte) (prompt string, ok bool) {
	t.clock.pause()
	defer t.clock.resume()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns++
	stop, err := t.checkpoint(ctx, t.turns, said)
	if stop && t.responder != nil {
		t.responder.Outcome = evidence.ResponderStopped
	}
	if err == nil && !stop {
		prompt, ok, err = t.next(ctx, said)
	}
	if ctx.Err() != nil {
		return "", false
	}
	t.err = err
	if ok = ok && err == nil; ok {
		t.earlier = t.work.messagesIn(said)
	}
	return prompt, ok
}

func (t *turnHandler) next(ctx context.Context, said []byte) (prompt string, ok bool, err error) {
	if r := t.work.stage.plan.Agent.Responder; r != nil {
		return t.respond(ctx, *r, said)
	}
	if prompts := t.work.stage.plan.Agent.FollowUps; t.turns <= len(prompts) {
		return prompts[t.turns-1], true, nil
	}
	return "", false, nil
}

// conversed is the result of a conversation after the agent has exited.
type conversed struct {
	silence     failure // why the agent got no reply, if it did not
	checkpoints []evidence.Checkpoint
	responder   *evidence.Responder
	between     time.Duration // time during which the agent's clock was paused
	earlier     string        // the agent's messages in the turns before the last
}

// conversed returns the result of the conversation, after the agent has exited.
func (t *turnHandler) conversed() (conversed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return conversed{t.silence, t.checkpoints, t.responder, t.clock.paused(), t.earlier}, t.err
}

// respond asks a model to reply to the agent as its user. ok is false if the conversation is over.
// It fails if the model's provider does not answer.
func (t *turnHandler) respond(ctx context.Context, r eval.Responder, said []byte) (reply string, ok bool, err error) {
	w := t.work
	if t.responder == nil {
		t.responder = &evidence.Responder{}
		t.exchanges = []grading.Exchange{{Prompt: w.stage.plan.Agent.Prompt}}
	}
	info := t.responder
	all := w.stage.o.Secrets.String(w.messagesIn(said)) // a secret may span several messages
	t.exchanges[len(t.exchanges)-1].Said = all[turnBegins(all, t.earlier):]
	if info.FollowupsSent == r.MaxFollowups {
		info.Outcome = evidence.ResponderExhausted
		return "", false, nil
	}
	answer, err := t.askUser(ctx, r)
	switch {
	case err != nil:
		info.Outcome, info.Reason = evidence.ResponderError, err.Error()
		if known := (*fault)(nil); errors.As(err, &known) {
			return "", false, err
		}
		t.silence = failure{w.stage.log.Now(), fmt.Errorf("the agent got no answer: %w", err)}
	case answer.Action == grading.ActionStop:
		info.Outcome = evidence.ResponderStopped
	case answer.Action == grading.ActionAbstain:
		info.Outcome, info.Reason = evidence.ResponderAbstained, answer.Text
		t.silence = failure{w.stage.log.Now(), errors.New("inputs.responder.instructions do not tell what the agent asks: " + answer.Text)}
	default:
		info.FollowupsSent++
		t.exchanges = append(t.exchanges, grading.Exchange{Prompt: answer.Text})
		return answer.Text, true, nil
	}
	return "", false, nil
}

// askUser asks the model and records the answer. The error is a fault if the provider is to blame,
// which is the case if it also fails without the agent's messages.
func (t *turnHandler) askUser(ctx context.Context, r eval.Responder) (grading.Reply, error) {
	w, judge := t.work, *t.work.stage.plan.Judge
	client, err := w.stage.o.Connect(judge)
	if err != nil {
		return grading.Reply{}, withReason(evidence.ReasonModel, err)
	}
	ask := grading.AskUser(judge, r.Model, r.Instructions, t.exchanges)
	answer, failed := client.Answer(ctx, ask)
	if miss := (*cassette.Miss)(nil); errors.As(failed, &miss) {
		w.stage.log.missed("responder", miss)
		return grading.Reply{}, failed
	}
	if failed != nil && ctx.Err() == nil {
		if _, err := client.Answer(ctx, grading.AskUser(judge, r.Model, r.Instructions, nil)); err != nil {
			return grading.Reply{}, withReason(evidence.ReasonModel, fmt.Errorf("inputs.responder: %w", err))
		}
	}
	err = recordStep(w.stage.log.Recorder, grading.Ask{Kind: evidence.StepResponder, What: ask}, answer, failed)
	if err := errors.Join(failed, err); err != nil {
		return grading.Reply{}, err
	}
	reply, err := grading.ReadReply(answer)
	reply.Text = w.stage.o.Secrets.String(reply.Text)
	return reply, err
}

// messagesIn returns the agent's messages in its stdout, with secrets replaced.
func (w *agentWork) messagesIn(stdout []byte) string {
	stdout, _ = w.stage.o.Secrets.Bytes(stdout)
	if w.stage.plan.Agent.Output != plan.OutputTranscript {
		return string(stdout)
	}
	var all []string
	_, _ = w.stage.plan.Agent.Events.Read(bytes.NewReader(stdout), func(e evidence.TranscriptEvent) error { // the collector reports lines that cannot be read
		if e.Type == evidence.AssistantMessage && e.Content != "" {
			all = append(all, e.Content)
		}
		return nil
	})
	return strings.Join(all, "\n")
}

// turnBegins returns the offset in said at which a turn begins, given the agent's output in earlier
// turns. Secrets are replaced in both; in said, also secrets that are only partly in before.
func turnBegins(said, before string) int {
	n := len(before)
	if n == 0 || n > len(said) || !secret.MayBe(said[:n], before) {
		return 0
	}
	return len(said) - len(strings.TrimPrefix(said[n:], "\n")) // the newline separates turns
}

// checkpoint takes a snapshot of the trial if the task has a checkpoint after this turn. stop
// reports whether its graders end the conversation.
func (t *turnHandler) checkpoint(ctx context.Context, turn int, said []byte) (stop bool, err error) {
	i := slices.IndexFunc(t.work.stage.plan.Checkpoints, func(c eval.ResolvedCheckpoint) bool { return c.AfterTurn == turn })
	if i < 0 {
		return false, nil
	}
	c := t.work.stage.plan.Checkpoints[i]
	dir := evidence.Dir(t.work.stage.log.Dir()).Checkpoint(turn)
	then, err := t.snapshot(ctx, c, dir, said)
	if err != nil {
		return false, fmt.Errorf("checkpoint after turn %d: %w", turn, err)
	}
	if c.Stop { // other checkpoints are graded with the trial
		var verdicts evidence.Verdicts
		verdicts, err = grading.Grade(dir, then)
		stop = verdicts.Class != evidence.ClassPass
	}
	t.checkpoints = append(t.checkpoints, evidence.Checkpoint{AfterTurn: turn, Stopped: stop})
	return stop, err
}

// snapshot collects the workspace after a turn, and carries out what the checkpoint's graders ask
// for, as after the agent. It writes the evidence so far to a directory, as a trial with these
// graders, and returns the content of its trial.json.
func (t *turnHandler) snapshot(ctx context.Context, c eval.ResolvedCheckpoint, dir evidence.Dir, said []byte) (then evidence.Trial, err error) {
	s := t.work.stage
	rec, err := evidence.Create(string(dir), s.o.Secrets, evidence.StartClock(s.log.Now()))
	if err != nil {
		return then, err
	}
	plan := checkpointPlan(s.plan, c)
	log, err := newObserver(&plan, rec, s.o)
	if err != nil {
		return then, errors.Join(err, rec.Close())
	}
	now := *s
	now.plan, now.log, now.servers, now.endpoints = &plan, log, s.servers.forCheckpoint(log), nil
	all := everything{plan: &plan, o: s.o, began: log.Now(), opened: s.opened}
	all.o.Baseline = nil // the baseline is of whole trials
	all.ran = agentRun{started: t.started, ended: log.Now(), turns: conversed{between: t.clock.paused(), earlier: t.earlier}}
	all.ended = all.ran.ended
	err = errors.Join(t.takeCheckpoint(ctx, &now, &all, c.AfterTurn, said), rec.Close())
	if err != nil {
		return then, err
	}
	all.missing = rec.Lost()
	if then, err = writeRecord(dir, all.redacted(conclude(all), rec), rec); err != nil {
		return then, err
	}
	_, err = Consulting{Connect: s.o.Connect, Secrets: s.o.Secrets}.Ask(ctx, dir, then)
	return then, err
}

// checkpointPlan returns the plan of a trial with the graders of a checkpoint in place of its own.
func checkpointPlan(t *plan.Trial, c eval.ResolvedCheckpoint) plan.Trial {
	at := *t
	at.Graders, at.Attack, at.Checkpoints, at.GraderContainers = c.Graders, nil, nil, nil
	for _, container := range t.GraderContainers {
		if container.Turn == c.AfterTurn {
			container.Turn = 0
			at.GraderContainers = append(at.GraderContainers, container)
		}
	}
	return at
}

// takeCheckpoint copies the evidence so far to a checkpoint, collects what the agent left, and adds what graders ask for.
func (t *turnHandler) takeCheckpoint(ctx context.Context, s *stage, all *everything, turn int, said []byte) error {
	if err := t.work.stage.log.CopyTo(s.log.Recorder); err != nil {
		return err
	}
	stdout, err := s.log.Text(evidence.StdoutFile, nil)
	if err != nil {
		return err
	}
	_, err = stdout.Write(said)
	if err := errors.Join(err, stdout.Close()); err != nil {
		return err
	}
	if all.ran.stdout, all.ran.overlong, err = stdoutOf(s.plan, s.log.Recorder); err != nil {
		return err
	}
	if all.left, err = collect(ctx, s, all.ran, true); err != nil {
		return err
	}
	if err := askServers(ctx, s); err != nil {
		return err
	}
	all.unfit, err = runPrograms(ctx, s, *all, fmt.Sprintf("%s.turn%d", s.plan.Task, turn), s.log.captured())
	return err
}
