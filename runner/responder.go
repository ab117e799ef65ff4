package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/plan"
)

// respond has a model answer the agent as its user. ok is false where the conversation is over.
// The error is of a provider that cannot be asked.
func (t *talk) respond(ctx context.Context, r eval.Responder, said []byte) (reply string, ok bool, err error) {
	tr := t.tr
	if t.responder == nil {
		t.responder = &evidence.Responder{}
		t.exchanges = []grading.Exchange{{Prompt: tr.plan.Agent.Prompt}}
	}
	info := t.responder
	whole := tr.words(said)
	clean, _ := tr.o.Secrets.Bytes([]byte(strings.TrimPrefix(whole, t.heard)))
	t.heard = whole
	t.exchanges[len(t.exchanges)-1].Said = string(clean)
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
		t.blame = "nobody answered the agent: " + info.Reason
	case answer.Action == grading.ActionStop:
		info.Outcome = evidence.ResponderStopped
	case answer.Action == grading.ActionAbstain:
		info.Outcome, info.Reason = evidence.ResponderAbstained, answer.Text
		t.blame = "inputs.responder.instructions do not tell what the agent asks: " + answer.Text
	default:
		info.FollowupsSent++
		t.exchanges = append(t.exchanges, grading.Exchange{Prompt: answer.Text})
		return answer.Text, true, nil
	}
	return "", false, nil
}

// askUser asks the model, and puts what came of it on record. An error that is a fault is the
// provider's: it fails without a word of the agent's, too.
func (t *talk) askUser(ctx context.Context, r eval.Responder) (grading.Reply, error) {
	tr, judge := t.tr, *t.tr.plan.Judge
	client, err := tr.o.Connect(judge)
	if err != nil {
		return grading.Reply{}, because(evidence.ReasonModel, err)
	}
	ask := grading.AskUser(judge, r.Model, r.Instructions, t.exchanges)
	answer, failed := client.Answer(ctx, ask)
	if failed != nil && ctx.Err() == nil {
		if _, err := client.Answer(ctx, grading.AskUser(judge, r.Model, r.Instructions, nil)); err != nil {
			return grading.Reply{}, because(evidence.ReasonModel, fmt.Errorf("inputs.responder: %w", err))
		}
	}
	step := evidence.Step{Kind: evidence.StepResponder}
	if step.Ask, err = (grading.Question{Ask: ask}).Raw(); err != nil {
		return grading.Reply{}, err
	}
	if failed != nil {
		step.Error = failed.Error()
	} else if step.Answer, err = json.Marshal(answer); err != nil {
		return grading.Reply{}, err
	}
	if err := errors.Join(failed, tr.rec.Step(step)); err != nil {
		return grading.Reply{}, err
	}
	reply, err := grading.ReadReply(answer)
	reply.Text = tr.o.Secrets.String(reply.Text)
	return reply, err
}

// words is what an agent says, of what it wrote on stdout.
func (tr *trialRun) words(stdout []byte) string {
	if tr.plan.Agent.Output != plan.OutputTranscript {
		return string(stdout)
	}
	var all []string
	_, _ = tr.plan.Agent.Tells.Read(bytes.NewReader(stdout), func(e evidence.TranscriptEvent) error { // what cannot be read is told in the end
		if e.Type == evidence.AssistantMessage && e.Content != "" {
			all = append(all, e.Content)
		}
		return nil
	})
	return strings.Join(all, "\n")
}
