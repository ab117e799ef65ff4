package pages

import (
	"encoding/json"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// The page of a trial with a responder shows the replies, the mocked commands and the
// checkpoint that ended the conversation.
func TestTalkedPage(t *testing.T) {
	dir := runtest.Dir(t)
	run := runtest.New(t, dir, "shop")
	run.Trial("order", func(trial *runtest.Trial) {
		trial.Serve("stock", runtest.Tool{Name: "price"})
		trial.Call("stock", "price", map[string]any{"sku": "BRG"}, "12 cents")
		for _, end := range [][2]int{{0, 0}, {3, 1}, {127, -1}} {
			trial.Event(evidence.Event{
				Kind: "command", Where: "agent", Message: "git push origin main --force-with-lease",
				Data: map[string]any{"args": []string{"push"}, "exit_code": end[0], "response_index": end[1]},
			})
		}
		for _, text := range []string{`{"action":"reply","text":"Six of them, please, and send them to the harbour."}`, `{"action":"stop","text":""}`} {
			answer, err := json.Marshal(evidence.JudgeAnswer{Text: text})
			if err == nil {
				err = trial.Step(evidence.Step{Kind: evidence.StepResponder, Answer: answer})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		trial.Info.Prompt, trial.Info.FinalOutput = "Order hinges.", "How many?\nOrdered."
		trial.Info.Responder = &evidence.Responder{FollowupsSent: 1, Outcome: evidence.ResponderStopped}
		trial.Info.Checkpoints = []evidence.Checkpoint{{AfterTurn: 1, Stopped: true}}
		trial.Grade("told", "text", `{"contains": ["Ordered"]}`)
	})
	checkpoint := runner.TrialDir(dir, "order", 1).Checkpoint(1)
	rec, err := evidence.Create(string(checkpoint), nil, nil)
	if err == nil {
		err = rec.Close()
	}
	if err == nil {
		err = checkpoint.WriteTrial(evidence.Trial{Task: "order", Number: 1, FinalOutput: "How many?", Graders: []evidence.GraderSpec{
			{Name: "early", Type: "text", Weight: 1, Config: json.RawMessage(`{"contains": ["Ordered"]}`)},
			{Name: "asks", Type: "text", Weight: 1, Config: json.RawMessage(`{"contains": ["many"]}`)},
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	run.End()
	report, _ := written(t, dir)
	p := browsertest.Start(t).Open(t, file(report)+"#trial/order/1", browsertest.View{})
	const shown = `WORDS.filter(w => !(` + trial + `).innerText.includes(w))`
	words := quoted([]string{"Replies of the user", "Six of them", "ends the conversation", "exit code 3", "unmatched", "Checkpoint after turn 1", "The conversation ended here.", "early", "asks"})
	if missing := browsertest.Eval[[]string](p, words+shown[len("WORDS"):]); len(missing) > 0 {
		t.Errorf("the page lacks %q", missing)
	}
	look(t, p, "talked")
	p.Quiet()
}
