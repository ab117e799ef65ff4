package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// A run that goes on writes lines in pieces, and one that is resumed makes trials again.
func TestTrackerReadsWhatIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "a", runner.RunFile), "{}")
	x := newRuns(dir, runner.Held)
	name := filepath.Join(dir, "a", evidence.ProgressFile)
	tracker := &tracker{id: "a"}
	for _, step := range []struct {
		add   string
		ended int
	}{
		{"", 0},
		{`{"task":"buy","number":1,"attempt":1,"phase":"do`, 0},
		{`ne","outcome":"pass"}` + "\n", 1},
		{"broken\n{}\n[]\n" + strings.Repeat("x", 3<<20), 1},
		{"\n" + `{"task":"buy","number":2,"attempt":1,"phase":"done","outcome":"infra"}` + "\n", 2},
		{`{"task":"buy","number":2,"attempt":2,"phase":"starting"}` + "\n", 1},
		{`{"task":"buy","number":2,"attempt":2,"phase":"done","outcome":"pass"}` + "\n", 2},
	} {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.add); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if ended := tracker.done(x); ended != step.ended {
			t.Errorf("behind %.60q %d have ended, want %d", step.add, ended, step.ended)
		}
	}
	if err := evidence.WriteFile(name, []byte(`{"task":"other","number":1,"attempt":1,"phase":"starting"}`+"\n")); err != nil {
		t.Fatal(err)
	}
	tracker.done(x)
	if p := tracker.describeLocked(x, view.ListedRun{}, time.Now()); p.Done != 0 || len(p.Trials) != 1 || p.Trials[0].Task != "other" {
		t.Errorf("of another file: %+v", p)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	tracker.done(x)
	if p := tracker.describeLocked(x, view.ListedRun{}, time.Now()); len(p.Trials) != 0 {
		t.Errorf("of no file: %+v", p)
	}
}

// FuzzProgress: whatever a run's account says, it is followed within bounds.
func FuzzProgress(f *testing.F) {
	f.Add([]byte(`{"t":"2026-01-02T03:04:05Z","task":"a","number":1,"attempt":1,"phase":"done","outcome":"pass"}` + "\n"))
	f.Add([]byte(`{"task":"a","number":1,"phase":"` + strings.Repeat("x", 9999) + `"}`))
	f.Add([]byte(`{"task":"a","number":1,"phase":"done"}` + "\n" + `{"task":"a","number":1,"phase":"done"}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		dir := t.TempDir()
		lay(t, filepath.Join(dir, "a", evidence.ProgressFile), string(lines))
		x, tracker := newRuns(dir, runner.Held), &tracker{id: "a"}
		tracker.done(x)
		p := tracker.describeLocked(x, view.ListedRun{}, time.Now())
		for _, trial := range p.Trials {
			if len(trial.Message) > maxWord+len("…") {
				t.Errorf("%+v", trial)
			}
		}
		if p.Done < 0 || p.Done > len(p.Trials) {
			t.Errorf("%d of %d have ended", p.Done, len(p.Trials))
		}
	})
}

// FuzzOpenCall checks that no frames panic.
func FuzzOpenCall(f *testing.F) {
	const ofHook = `{"seq":1,"server":"s","conn":"hook/s/1","dir":"to_server","raw":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}","sender":"hook"}` + "\n"
	if call := newestOpen([]byte(ofHook)); call != nil {
		f.Errorf("a hook's call is the agent's: %+v", call)
	}
	f.Add([]byte(`{"seq":1,"server":"s","conn":"c","dir":"to_server","raw":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}` + "\n"))
	f.Add([]byte(`{"seq":1,"server":"` + strings.Repeat("s", 9999) + `","dir":"to_server","raw":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}` + "\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		if call := newestOpen(lines); call != nil && (len(call.Tool) > maxWord+3 || len(call.Server) > maxWord+3) {
			t.Errorf("%+v", call)
		}
	})
}
