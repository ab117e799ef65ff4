package serve

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/view"
)

// The state of a run is that of its process and its files: running, killed, resumed, deleted, and
// replaced by another of that name. Pages load themselves again only while a process is at work.
func TestEndsOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Record.Started = run.Record.Started.Add(-time.Hour)
	if err := run.Record.Write(run.Dir); err != nil {
		t.Fatal(err)
	}
	run.Step(1, evidence.PhaseDone, evidence.ClassPass)
	run.Step(2, evidence.PhaseAgent, "")
	s := open(t, dir)
	stands := func(state view.RunState, done, begun int) {
		t.Helper()
		listed := s.list()["a"]
		if p := s.runs.progress(listed); p.State != state || p.Done != done || len(p.Trials) != begun || listed.Done != done || (p.ElapsedMS >= time.Hour.Milliseconds()) != (begun > 0) {
			t.Errorf("%+v, listed as %+v, want %s and %d done", p, listed, state, done)
		}
		again := s.ask("/runs/a/overview", nil).Header.Get("Refresh")
		if (again != "") != (state == view.StateRunning) {
			t.Errorf("the page of a run that is %s is loaded again after %q seconds", state, again)
		}
	}
	stands(view.StateRunning, 1, 2)
	run.Kill()
	stands(view.StateInterrupted, 1, 2)
	run.Resume()
	run.Step(2, evidence.PhaseStart, "")
	run.Step(2, evidence.PhaseDone, evidence.ClassFail)
	stands(view.StateRunning, 2, 2)
	if err := os.Rename(run.Dir, filepath.Join(t.TempDir(), "gone")); err != nil { // whole, at once
		t.Fatal(err)
	}
	if got := s.ask("/runs/a/overview", nil); got.StatusCode != http.StatusNotFound || got.Header.Get("Refresh") != "" {
		t.Errorf("of a run that is gone: %s", got.Status)
	}
	if err := errors.Join(os.Mkdir(run.Dir, 0o755), run.Record.Write(run.Dir)); err != nil {
		t.Fatal(err)
	}
	stands(view.StateInterrupted, 0, 0)
}

// The page of a run in progress shows its state.
func TestLivePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, evidence.PhaseDone, evidence.ClassFail)
	run.Step(2, evidence.PhaseAgent, "")
	run.Frames(2,
		evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"price"}}`)},
		evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToClient, Raw: []byte(`{"id":1,"result":{}}`)},
		evidence.Frame{Server: "stock", Conn: "d", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"<b>reserve"}}`)},
	)
	s := open(t, dir)
	page := s.page("/runs/a/overview")
	for _, want := range []string{"agent at work", "stock &lt;b&gt;reserve", `href="/runs/a/trial/buy/1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, ">at work<"); n != 1 {
		t.Errorf("the page says at work %d times", n)
	}
	for number, want := range map[string]string{"2": "This trial runs.", "3": "This trial has not begun."} { // whose address stays
		if got := s.ask("/runs/a/trial/buy/"+number, nil); !strings.Contains(got.body, want) || got.Header.Get("Refresh") != "2" {
			t.Errorf("trial %s: %s", number, got.body)
		}
	}
	for _, number := range []string{"1", "4"} { // that has no verdicts, and that was not planned
		if got := s.ask("/runs/a/trial/buy/"+number, nil); got.StatusCode != http.StatusNotFound || got.Header.Get("Refresh") != "" {
			t.Errorf("trial %s: %s", number, got.Status)
		}
	}
}
