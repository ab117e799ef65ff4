package trial

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner/plan"
)

// talkative is a judge that plays a user who replies with a text, and keeps what it was last shown.
type talkative struct{ text, shown string }

func (j *talkative) Answer(_ context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	j.shown = ask.Messages[1].Content
	return evidence.JudgeAnswer{Text: `{"action":"reply","text":"` + j.text + `"}`}, nil
}

// What a responder is shown of a turn is searched for secrets with the messages and turns before, and its reply is
// searched too.
func TestResponderWithoutSecrets(t *testing.T) {
	const first, second = `{"say":"hunter2-an"}` + "\n", `{"say":"d-more"}` + "\n"
	for name, test := range map[string]struct {
		events bool     // lines are events
		turns  []string // what the agent writes in each
		said   string   // in the last
	}{
		"one message":           {false, []string{"It is hunter2-and-more."}, "It is ****************."},
		"two messages":          {true, []string{first + second}, "*****************"},
		"two turns":             {false, []string{"hunter2-an", "d-more."}, "******."},
		"messages of two turns": {true, []string{first, second}, "*******"},
		"a turn after a secret": {false, []string{"hunter2-and-more", "\nDone."}, "Done."},
	} {
		secrets := &secret.Set{}
		secrets.Add("hunter2-and-more")
		rec, err := evidence.Create(filepath.Join(t.TempDir(), "1"), secrets, nil)
		if err != nil {
			t.Fatal(err)
		}
		judge := &talkative{text: "Use hunter2-and-more."}
		s := &stage{plan: &plan.Trial{Judge: &evidence.Judge{}}, log: observer{Recorder: rec}}
		s.o = Options{Secrets: secrets, Connect: func(evidence.Judge) (Judge, error) { return judge, nil }}
		if test.events {
			s.plan.Agent.Output = plan.OutputTranscript
			s.plan.Agent.Events = &transcript.Source{From: "stdout", Format: transcript.FormatJSONL, Events: []transcript.Rule{
				{Type: transcript.Message, Content: "say"},
			}}
		}
		h := &turnHandler{work: &agentWork{stage: s}}
		stdout := ""
		for _, turn := range test.turns {
			stdout += turn
			reply, ok, err := h.respond(t.Context(), eval.Responder{MaxFollowups: 9}, []byte(stdout))
			if err != nil || !ok || reply != "Use ****************." {
				t.Errorf("%s: %q, %v, %v", name, reply, ok, err)
			}
			h.earlier = h.work.messagesIn([]byte(stdout))
		}
		if said := h.exchanges[len(test.turns)-1].Said; said != test.said || !strings.Contains(judge.shown, test.said) {
			t.Errorf("%s: the agent said %q, shown as\n%s", name, said, judge.shown)
		}
		if err := errors.Join(rec.Err(), rec.Close()); err != nil {
			t.Error(err)
		}
	}
}
