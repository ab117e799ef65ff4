package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/runner/plan"
)

// Of the output of a server the beginning is kept and shown, which ends with no piece of a secret. That it is full is
// one event.
func TestServerOutput(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more")
	dir := evidence.Dir(filepath.Join(t.TempDir(), "1"))
	rec, err := evidence.Create(string(dir), secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	l := &serverStarter{log: observer{Recorder: rec}, plan: &plan.Trial{}, outputs: map[string]io.Writer{}}
	l.serverLog = func(*plan.Trial, string) io.Writer { return &shown }
	err = l.openOutput("s", "s", "stderr", func(kept *bounded.Head) (io.WriteCloser, error) { return rec.ServerLog("s", kept) })
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Repeat("x", maxServerOutput-4) + "hunter2-and-more"
	for _, part := range []string{said[:maxServerOutput], said[maxServerOutput:], said} {
		_, _ = io.WriteString(l.output("s"), part)
	}
	if err := errors.Join(l.close(t.Context()), rec.Close()); err != nil {
		t.Error(err)
	}
	kept, err := os.ReadFile(filepath.Join(string(dir), evidence.ServersDir, "s.stderr"))
	if err != nil || len(kept) != maxServerOutput || strings.Trim(string(kept), "x") != "****" {
		t.Errorf("%d bytes are kept, %v", len(kept), err)
	}
	if shown.Len() < maxServerOutput-4 || shown.Len() > len(said) {
		t.Errorf("%d bytes are shown", shown.Len())
	}
	events, err := dir.Events()
	if err != nil || len(events) != 1 || events[0].Kind != "limit" || events[0].Where != "s" {
		t.Errorf("%+v, %v", events, err)
	}
}

// events keeps events.
type events []evidence.Event

func (l *events) Event(e evidence.Event) { *l = append(*l, e) }

// What is kept of a question of a server and of its answer ends with no piece of a secret.
func TestCutAnswer(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more")
	var told events
	a := &answers{rec: &told, secrets: secrets}
	long := strings.Repeat("x", maxShownText-7) + "hunter2-and-more"
	if _, ok := a.answer(input.Question{Server: long, Params: json.RawMessage(long)}); !ok || len(told) != 1 {
		t.Fatalf("%+v", told)
	}
	if e := told[0]; !strings.HasSuffix(e.Where, "x*******…") || !strings.Contains(e.Message, "x******… is answered ") {
		t.Errorf("%+v", e)
	}
}

// A final output in a file may have a secret that is not listed in the workspace, of too many. It is listed in the
// trial.
func TestSecretInAnOutputFile(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more", "s/TOKEN")
	rec, err := evidence.Create(filepath.Join(t.TempDir(), "1"), secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := rec.Tree(evidence.WorkspaceFile)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Write(treetest.Tar(t, 0o644,
		treetest.Entry{Name: "many", Content: strings.Repeat("hunter2-and-more ", 1100)},
		treetest.Entry{Name: "out", Content: "It is hunter2-and-more."},
	))
	if err := errors.Join(err, tree.Close()); err != nil {
		t.Fatal(err)
	}
	c := &collector{rec: rec}
	c.collectOutput("out")
	record := evidence.Trial{FinalOutput: c.found.final.text}
	marks, _ := cleanOutputs(&record, secrets, c.found.final.spans)
	if spans := marks.Spans(evidence.TextFinalOutput); len(spans) != 1 || spans[0].At != 6 || spans[0].Bytes != 16 || len(spans[0].Secrets) != 1 {
		t.Errorf("%+v", spans)
	}
	if record.FinalOutput != "It is ****************." || len(c.found.losses) > 0 {
		t.Errorf("%q, %+v", record.FinalOutput, c.found.losses)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

// A transcript may have holes, which are not in its tar. It is limited all the same.
func TestTranscriptThatIsTooLarge(t *testing.T) {
	rec, err := evidence.Create(filepath.Join(t.TempDir(), "1"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{rec: rec}
	if err := c.keepTranscript(io.LimitReader(zeroReader{}, maxTranscript+1<<20)); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	if info, err := os.Stat(c.file(evidence.TranscriptFile)); err != nil || info.Size() != maxTranscript {
		t.Errorf("%v, %v", info, err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

// Of the output of a program the beginning is kept, which ends with no piece of a secret. That one was there is
// recorded.
func TestProgramOutput(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more", "s/TOKEN")
	out := newProgramOutput(10, secrets)
	for _, part := range []string{"xxx", "hunter2-an", "d-more", " yyy"} {
		if n, err := io.WriteString(out, part); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got := out.end(); got.Text != "xxx*******" || got.Cut != 13 {
		t.Errorf("%+v", got)
	}
	answer := &evidence.ProgramAnswer{Stdout: out.end(), Replaced: secret.First(out.marked.Found().Where, out.kept.Limit)}
	step, err := newStep(grading.Ask{What: evidence.ProgramAsk{}}, answer, nil)
	if names := secret.Names(step.Spans); err != nil || len(names) != 1 || names[0] != "s/TOKEN" {
		t.Errorf("%+v, %v", step, err)
	}
}
