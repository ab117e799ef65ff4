package report

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/report/view"
)

// sampled writes the evidence of a trial with text in every untrusted field.
func sampled(t testing.TB, text string, calls int) evidence.Dir {
	t.Helper()
	dir := evidence.Dir(filepath.Join(t.TempDir(), "trials", "task", "2"))
	for _, sibling := range []string{"1", "2", "4"} {
		must(t, os.MkdirAll(filepath.Join(string(dir), "..", sibling), 0o755))
		must(t, os.WriteFile(filepath.Join(string(dir), "..", sibling, evidence.TrialFile), []byte("{}"), 0o644))
	}
	must(t, os.MkdirAll(filepath.Join(string(dir), evidence.ServersDir), 0o755))
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	must(t, dir.WriteTrial(evidence.Trial{
		Task: "task", TaskName: text, Number: 2, Prompt: text, FinalOutput: text, Executor: text, Message: text,
		Servers: []evidence.ServerRecord{{Name: "inventory"}}, AgentStart: start, AgentEnd: at(10 * calls), Gaps: []string{text},
		Responder: &evidence.Responder{FollowupsSent: 1, Outcome: text},
		Attack:    &evidence.TaskAttack{Goal: text, Injections: []evidence.Injection{{}}},
	}))
	quoted, _ := json.Marshal(text)
	raw := func(format string) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, quoted)) }
	answered := func(format string) json.RawMessage {
		answer := format
		if strings.Contains(format, "%") {
			answer = fmt.Sprintf(format, quoted)
		}
		line, err := evidence.Marshal(evidence.JudgeAnswer{Text: answer})
		must(t, err)
		return line
	}
	var all []evidence.Call
	var frames bytes.Buffer
	for i := range calls {
		call := evidence.Call{
			Seq: i + 1, Server: "inventory", Tool: text, Arguments: raw(`{"a":{"b":[%s,1.50]}}`), Result: evidence.NewResult(raw(`{"content":[{"type":"text","text":%s}],"extra":1}`)),
			Outcome: evidence.OutcomeOK, Start: at(10 * i), End: at(10*i + 4), RequestFrame: int64(2*i + 1), ResponseFrame: int64(2*i + 2), Notes: []string{text},
		}
		if i%3 == 1 {
			call.Outcome, call.Incident, call.Error = evidence.OutcomeToolError, 1, raw(`{"message":%s}`)
		}
		all = append(all, call)
		for n, direction := range []evidence.Direction{evidence.ToServer, evidence.ToClient} {
			line, err := evidence.Marshal(evidence.Frame{Seq: int64(2*i + n + 1), Server: "inventory", Dir: direction, Raw: []byte(text), Injected: []int{1}})
			must(t, err)
			frames.Write(append(line, '\n'))
		}
	}
	must(t, dir.WriteCalls(all))
	files := map[string][]byte{
		evidence.FramesFile: frames.Bytes(),
		evidence.EventsFile: slices.Concat(
			jsonLine(t, evidence.Event{Time: at(5), Kind: "oom", Where: text, Message: text, Data: map[string]any{text: text}}),
			jsonLine(t, evidence.Event{Time: at(6), Kind: "command", Where: "agent", Message: text, Data: map[string]any{"exit_code": 3, "response_index": 0}}),
			jsonLine(t, evidence.Event{Time: at(7), Kind: "command", Where: "agent", Message: text, Data: map[string]any{"exit_code": 1, "response_index": -1}}),
		),
		evidence.StepsFile: slices.Concat(
			jsonLine(t, evidence.Step{Kind: evidence.StepResponder, Answer: answered(`{"action":"reply","text":%s}`)}),
			jsonLine(t, evidence.Step{Kind: evidence.StepResponder, Answer: answered(`{"action":"stop","text":""}`)}),
			jsonLine(t, evidence.Step{Kind: evidence.StepResponder, Error: text}),
		),
		evidence.TranscriptFile: append(jsonLine(t, evidence.TranscriptEvent{Type: "tool.execution_start", ToolCallID: "1", ToolName: text, Arguments: raw(`[%s]`)}),
			jsonLine(t, evidence.TranscriptEvent{Type: "assistant.message", Content: text + "said"})...),
		evidence.StdoutFile: []byte(text), evidence.StderrFile: []byte(text),
		filepath.Join(evidence.ServersDir, "inventory.stderr"): []byte(text),
		evidence.BeforeFile:    tarOf(t, map[string]string{"edited": "one\n", "gone": text}),
		evidence.WorkspaceFile: tarOf(t, map[string]string{"edited": text, "f" + clean(text): text}),
	}
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(string(dir), name), content, 0o644))
	}
	claim := evidence.Claim{Number: 2, Name: text, Arguments: raw(`{"a":%s}`)}
	must(t, dir.WriteNarration(evidence.Narration{
		Unbacked: []evidence.Claim{claim}, Unreported: []int{1}, Differs: []evidence.Difference{{Claim: evidence.Claim{Call: 2}, In: "result", Claimed: text, Actual: text}},
	}))
	must(t, dir.WriteVerdicts(evidence.Verdicts{Class: evidence.ClassFail, Message: text, Verdicts: []evidence.Verdict{
		{Name: text, Type: text, Result: evidence.VerdictFail, Feedback: text + ". call 2 failed, and call 3", Details: map[string]any{"about_calls": []int{2}, text: text}},
	}, Checkpoints: []evidence.CheckpointVerdicts{{
		Checkpoint: evidence.Checkpoint{AfterTurn: 7, Stopped: true},
		Verdicts:   evidence.Verdicts{Class: evidence.ClassFail, Verdicts: []evidence.Verdict{{Name: text, Type: text, Result: evidence.VerdictFail, Feedback: "too early, " + text}}},
	}}}))
	return dir
}

// clean is what a tar takes for a name.
func clean(text string) string { return strings.Trim(strings.ReplaceAll(text, "\x00", ""), "/.") }

func jsonLine(t testing.TB, v any) []byte {
	t.Helper()
	line, err := evidence.Marshal(v)
	must(t, err)
	return append(line, '\n')
}

func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatGNU}))
		_, err := w.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pageOf(t testing.TB, dir evidence.Dir, most Bounds) (Trial, string) {
	t.Helper()
	trial, err := ReadTrial(dir, most)
	must(t, err)
	return trial, write(t, Document{Title: "t"}, OfTrial(trial, Links{InFile: true}))
}

func TestTrialShows(t *testing.T) {
	trial, page := pageOf(t, sampled(t, "some text", 6), Share(1))
	if trial.Previous != 1 || trial.Next != 4 {
		t.Errorf("siblings %d and %d, want 1 and 4", trial.Previous, trial.Next)
	}
	for what, want := range map[string]string{
		"a digit of a number kept":               "1.50",
		"a link from a verdict to its call":      `href="#trial/task/2/call-2">call 2</a> failed`,
		"a call that the verdict is not about":   "failed, and call 3",
		"what followed a failure":                "retry of 2",
		"why it failed, by its grader":           `<p class="trial-why">some text: some text. call 2 failed`,
		"what came of that":                      `Retry of <a href="#trial/task/2/call-2">call 2</a>, failed too.`,
		"what became of a failure":               `Tried again, <a href="#trial/task/2/call-5">call 5</a> failed too.`,
		"an injection":                           "injection 1",
		"a claim":                                "never made",
		"what was told otherwise":                "misreported",
		"a call that was not told":               "not reported",
		"a builtin tool's row":                   `class="row builtin"`,
		"the diff of a file":                     "- one",
		"a bar in the timeline":                  `class="bar fail"`,
		"a frame, folded":                        "frame 3, to the server",
		"a gap":                                  "Missing from the evidence: some text",
		"a checkpoint":                           "Checkpoint after turn 7",
		"that it ended the conversation":         "The conversation ended here.",
		"what a checkpoint's grader says":        "too early, some text",
		"how the user's replies ended":           "1 reply, some text",
		"a reply":                                `<span class="soft">replies</span><pre tabindex="0">` + "\nsome text",
		"the end of the replies":                 "ends the conversation",
		"that there was no reply":                "no reply",
		"a program that is mocked":               "exit code 3",
		"one that is not":                        "unmatched",
		"where steps of a call in a row lead to": `id="trial/task/2/call-6"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s: %s", what, want)
		}
	}
	if strings.Contains(page, `>call 3</a>, and`) || strings.Contains(page, `and <a href="#trial/task/2/call-3"`) {
		t.Error("a verdict leads to a call that it only names")
	}
}

// That a trial passes does not hide that an attack on it succeeded.
func TestTrialNamesAttackInItsHead(t *testing.T) {
	trial, _ := pageOf(t, sampled(t, "some text", 1), Share(1))
	trial.Attack = &AttackView{AttackVerdict: evidence.AttackVerdict{Result: evidence.AttackSucceeded}}
	head := parse(t, OfTrial(trial, Links{InFile: true})).text(".page-head")
	if head != "some text fail attack succeeded" {
		t.Errorf("the head says %q", head)
	}
}

// TestTornEventsAreNamedOnce: the page has the conversation's gaps, and none of its own
// for what it reads of the conversation.
func TestTornEventsAreNamedOnce(t *testing.T) {
	dir := sampled(t, "some text", 3)
	for _, name := range []string{evidence.EventsFile, evidence.FramesFile} {
		file := filepath.Join(string(dir), name)
		content, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, append(content, "{\n"...), 0o644))
	}
	trial, page := pageOf(t, dir, Share(1))
	if len(trial.Gaps) != 3 {
		t.Errorf("gaps %q, want the trial's own and one for each file", trial.Gaps)
	}
	for _, shown := range []string{"oom", "frame 1, to the server"} {
		if !strings.Contains(page, shown) {
			t.Errorf("the page lacks what stands before the tear: %s", shown)
		}
	}
}

// However much a trial has, its page is bounded; what failed is shown first.
func TestTrialIsBounded(t *testing.T) {
	heavytest.Mark(t)
	most := Bounds{Text: 4 << 10, Total: 64 << 10, Steps: 20}
	trial, page := pageOf(t, sampled(t, strings.Repeat("<\u202e\n", 30_000), 60), most)
	if rows := len(trial.Rows); rows > most.Steps || trial.Unshown < 40 {
		t.Errorf("%d rows, %d not shown", rows, trial.Unshown)
	}
	empty := write(t, Document{}, Overview(view.Run{}, Links{InFile: true}))
	if size := len(page) - len(empty); size > most.Total+most.Steps*4*rowSize {
		t.Errorf("a page of %d bytes", size)
	}
	for _, row := range trial.Rows {
		for _, part := range row.Parts {
			if cost(part.Text.Text) > most.Text {
				t.Errorf("a text of %d bytes", len(part.Text.Text))
			}
		}
	}
	short, _ := pageOf(t, sampled(t, "x", 3), Bounds{Text: 100, Total: 500, Steps: 10})
	for _, row := range short.Rows {
		if row.Kind == rowCall && row.Failed && row.Parts[0].Text.Text == "" {
			t.Error("the room went to what did not fail")
		}
	}
}

// A window of a trial's steps is of those that are asked for: by number, by call, by words.
func TestWindows(t *testing.T) {
	dir := sampled(t, "some text", 60)
	whole, err := ReadTrial(dir, Bounds{Text: 100, Total: 1 << 20, Steps: 1000})
	must(t, err)
	all := len(whole.Rows)
	for _, c := range []struct {
		Window
		before, total int
	}{
		{Window{}, 0, all}, {Window{From: 7}, 0, all}, {Window{From: 25}, 20, all}, {Window{From: 1 << 20}, (all - 1) / 10 * 10, all}, {Window{At: "none"}, 0, all},
		{Window{At: "call-33"}, slices.IndexFunc(whole.Rows, func(r Row) bool { return r.Anchor == "call-33" }) / 10 * 10, all},
		{Window{Find: "1.50 SOME ok"}, 0, 40}, {Window{Find: "nowhere"}, 0, 0},
	} {
		got, err := ReadTrial(dir, Bounds{Text: 100, Total: 1 << 20, Steps: 10, Window: c.Window})
		must(t, err)
		if got.Before != c.before || got.Total() != c.total || len(got.Rows) != min(10, c.total-c.before) {
			t.Errorf("%+v: %d steps behind %d of %d, want those behind %d of %d", c.Window, len(got.Rows), got.Before, got.Total(), c.before, c.total)
		}
		for i, row := range got.Rows {
			if want := whole.Rows[got.Before+i]; c.Find == "" && (row.Anchor != want.Anchor || len(row.Parts) != len(want.Parts)) {
				t.Errorf("%+v: step %d is %s with %d texts", c.Window, got.Before+i, row.Anchor, len(row.Parts))
			}
		}
	}
}

func TestTimelineIsBounded(t *testing.T) {
	trial, page := pageOf(t, sampled(t, "x", 3000), Bounds{Text: 10, Total: 1000, Steps: 10})
	bars := strings.Count(page, "<rect class=\"bar")
	if bars > maxBars+2+len(trial.Timeline.Legend) || trial.Timeline.Joined < 1000 {
		t.Errorf("%d bars, %d calls drawn together", bars, trial.Timeline.Joined)
	}
	if strings.Contains(page, `href="#trial/task/2/call-2999"`) {
		t.Error("a bar leads to a call that is not shown")
	}
}
