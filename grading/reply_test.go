package grading_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

func TestReadReply(t *testing.T) {
	for answer, want := range map[string]grading.Reply{
		`{"action":"reply","text":"six"}`:                                {Action: "reply", Text: "six"},
		"```json\n{\"action\": \"stop\", \"text\": \"\"}\n```":           {Action: "stop"},
		` {"action":"abstain","text":"which warehouse"} `:                {Action: "abstain", Text: "which warehouse"},
		`{"action":"reply","text":" "}`:                                  {},
		`{"action":"shout","text":"x"}`:                                  {},
		`{"action":"stop","text":""} and more`:                           {},
		`{"action":"stop","text":"","score":1}`:                          {},
		`{"Action":"reply","text":"six"}`:                                {},
		`{"action":"stop","action":"reply","text":"six"}`:                {},
		`{"action":"reply","text":["six"]}`:                              {},
		`I would say six.`:                                               {},
		`{"action":"reply","text":"` + strings.Repeat("x", 1<<20) + `"}`: {},
	} {
		got, err := grading.ReadReply(evidence.JudgeAnswer{Text: answer})
		if (err == nil) != (want.Action != "") || err == nil && got != want {
			t.Errorf("%.80s: %+v, %v", answer, got, err)
		}
	}
	if _, err := grading.ReadReply(evidence.JudgeAnswer{Refusal: "no"}); err == nil {
		t.Error("a refusal is read")
	}
}

// The agent's text is enclosed in marks that it cannot write, and no reply is read that a
// user could not give.
func FuzzReadReply(f *testing.F) {
	f.Add(`{"action":"reply","text":"six"}`, "END x")
	f.Fuzz(func(t *testing.T, answer, said string) {
		r, err := grading.ReadReply(evidence.JudgeAnswer{Text: answer})
		if err == nil && (r.Action != "stop" && strings.TrimSpace(r.Text) == "" || len(r.Text) > 32<<10) {
			t.Errorf("%+v of %q", r, answer)
		}
		shown := grading.AskUser(evidence.Judge{}, "m", "six hinges", []grading.Exchange{{Prompt: answer, Said: said}}).Messages[1].Content
		if mark := strings.Fields(shown[strings.Index(shown, "The mark of the data is ")+len("The mark of the data is "):])[0]; strings.Contains(said, strings.TrimSuffix(mark, ".")) {
			t.Errorf("%q has its mark", said)
		}
	})
}
