package serve

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

func byID(runs []view.ListedRun) map[string]view.ListedRun {
	all := map[string]view.ListedRun{}
	for _, r := range runs {
		all[r.ID] = r
	}
	return all
}

// What a directory holds is told as what it is, however little of a run that is.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := makeRun(t, dir, "whole")
	record, err := os.ReadFile(filepath.Join(whole, runner.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	figures, err := os.ReadFile(filepath.Join(whole, runner.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	lay(t, filepath.Join(dir, "torn", runner.RunFile), string(record[:len(record)/2]))
	lay(t, filepath.Join(dir, "else", runner.RunFile), "[1, 2]")
	lay(t, filepath.Join(dir, "null", runner.RunFile), "null")
	lay(t, filepath.Join(dir, "figures", runner.RunFile), string(record))
	lay(t, filepath.Join(dir, "figures", runner.ResultsFile), string(figures[:200]))
	lay(t, filepath.Join(dir, "nofigures", runner.RunFile), string(record))
	lay(t, filepath.Join(dir, "directory", runner.RunFile, "x"), "")
	lay(t, filepath.Join(dir, "a file"), "")
	lay(t, filepath.Join(dir, ".hidden", runner.RunFile), string(record))
	for _, name := range []string{"empty", "starting"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	held, err := runner.Hold(filepath.Join(dir, "starting"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	runtest.Begin(t, dir, "running", 4).Step(1, evidence.PhaseDone, evidence.ClassPass)
	runtest.Begin(t, dir, "killed", 4).Kill()

	s := open(t, dir)
	got := s.list()
	for id, want := range map[string]view.ListedRun{
		"whole":     {State: view.StateEnded, Verdict: results.StatusFailed, Passed: 1},
		"torn":      {State: view.StateUnreadable, Problem: "Its run.json cannot be read"},
		"else":      {State: view.StateUnreadable, Problem: "Its run.json cannot be read"},
		"null":      {State: view.StateInterrupted},
		"figures":   {State: view.StateUnreadable, Problem: "Its results.json cannot be read"},
		"nofigures": {State: view.StateUnreadable, Problem: "It has no results.json."},
		"directory": {State: view.StateUnreadable, Problem: "It has no run.json."},
		"empty":     {State: view.StateUnreadable, Problem: "It has no run.json."},
		"starting":  {State: view.StateStarting},
		"running":   {State: view.StateRunning, Done: 1},
		"killed":    {State: view.StateInterrupted},
	} {
		r, ok := got[id]
		if !ok || r.State != want.State || r.Verdict != want.Verdict || r.Passed != want.Passed || r.Done != want.Done || !strings.HasPrefix(r.Problem, want.Problem) || want.Problem == "" && r.Problem != "" {
			t.Errorf("%s: %+v, want %+v", id, r, want)
		}
		for _, path := range []string{"/runs/" + id + "/overview", "/runs/" + id + "/servers"} {
			s.page(path)
		}
		if got := s.ask("/runs/"+id+"/trial/none/1", nil); got.StatusCode != 404 {
			t.Errorf("%s: a trial that is not there: %s", id, got.Status)
		}
	}
	if len(got) != 11 {
		t.Errorf("%d runs", len(got))
	}
	page := s.page("/")
	for _, want := range []string{"It has no run.json.", "It has no results.json.", "interrupted", "starting", "1 of 4 trials"} {
		if !strings.Contains(page, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
}

// An attack that is no gate changes no count of what passed, and is told beside it.
func TestAttackedTasksAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, run := range []string{"injection-careful", "injection-gullible"} {
		if err := os.CopyFS(filepath.Join(dir, run), os.DirFS(filepath.Join("..", "..", "test", "frozen", "testdata", "runs", run))); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	for id, want := range map[string]view.ListedRun{"injection-careful": {Passed: 3}, "injection-gullible": {Passed: 2, Attacked: 2}} {
		if got := s.list()[id]; got.Passed != want.Passed || got.Attacked != want.Attacked {
			t.Errorf("%s: %d tasks passed and %d attacks succeeded, want %d and %d", id, got.Passed, got.Attacked, want.Passed, want.Attacked)
		}
	}
	var listed strings.Builder
	passed := view.ListedRun{Verdict: results.StatusPassed, Attacked: 1}
	if err := (report.Document{Served: true}).Write(&listed, page{pages: []report.Page{report.Runs(dir, 1, []view.ListedRun{passed})}}.all); err != nil || !strings.Contains(listed.String(), "attack succeeded") {
		t.Errorf("a run that passed is not marked, %v", err)
	}
	if page := s.page("/"); !strings.Contains(page, "2 of 3") {
		t.Error("the page counts other tasks as passed")
	}
}

// Runs that come, change and go are seen without a restart; so is the directory itself.
func TestRunsComeAndGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".waza", "runs")
	s := open(t, dir)
	if !strings.Contains(s.page("/"), "Nothing has been run yet") {
		t.Error("nothing is not told")
	}
	total := func() int { return len(s.list()) }
	if n := total(); n != 0 {
		t.Errorf("%d runs of none", n)
	}
	at := makeRun(t, dir, "a")
	if n := total(); n != 1 {
		t.Errorf("%d runs of one", n)
	}
	shown := s.page("/runs/a/overview")
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/runs/a/overview", "/runs/a/servers", "/runs/a/trial/buy/1", "/runs/a/files/run.json", "/compare?a=a&b=a"} {
		got := s.ask(path, nil)
		if got.StatusCode != 404 || !strings.Contains(got.body, "It may have been deleted") {
			t.Errorf("%s of a run that was deleted: %s\n%s", path, got.Status, got.body)
		}
	}
	if n := total(); n != 0 {
		t.Errorf("%d runs of none", n)
	}
	makeRun(t, dir, "a")
	if again := s.page("/runs/a/overview"); again == "" || shown == "" {
		t.Error("it is not shown again")
	}
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	if n := total(); n != 0 {
		t.Errorf("%d runs in no directory", n)
	}
}

// Many runs are listed quickly, and changes appear immediately.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const runs = 500
	first := makeRun(t, dir, "0")
	files := map[string]string{}
	for _, name := range []string{runner.RunFile, runner.ResultsFile} {
		content, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
	}
	for i := 1; i < runs; i++ {
		for name, content := range files {
			lay(t, filepath.Join(dir, fmt.Sprint(i), name), content)
		}
	}
	s := newRuns(dir, func(string) bool { return false })
	began := time.Now()
	all, err := s.list()
	if err != nil || len(all) != runs {
		t.Fatalf("%d runs, %v", len(all), err)
	}
	t.Logf("%d runs: %s", runs, time.Since(began).Round(time.Millisecond))
	if err := os.Remove(filepath.Join(dir, "7", runner.ResultsFile)); err != nil {
		t.Fatal(err)
	}
	if all, err = s.list(); err != nil || byID(all)["7"].State != view.StateUnreadable {
		t.Errorf("%+v, %v", byID(all)["7"], err)
	}
}

// What is shown of a run is computed once for each version of its files.
func TestShownIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newRuns(dir, func(string) bool { return false })
	trials := func(id string) int {
		t.Helper()
		run, err := s.find(id)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := s.shown(run)
		if err != nil {
			t.Fatal(err)
		}
		return shown.Trials()
	}
	at := makeRun(t, dir, "a")
	if n := trials("a"); n != 2 {
		t.Errorf("%d trials", n)
	}
	if err := os.RemoveAll(filepath.Join(at, "trials", "buy")); err != nil {
		t.Fatal(err)
	}
	if n := trials("a"); n != 2 {
		t.Errorf("%d trials of a run whose record has not changed", n)
	}
	lay(t, filepath.Join(at, evidence.ProgressFile), "{}\n")
	if n := trials("a"); n != 1 {
		t.Errorf("%d trials of a run that has changed", n)
	}
	for i := range maxComputed {
		if n := trials(filepath.Base(makeRun(t, dir, fmt.Sprint(i)))); n != 2 {
			t.Errorf("%d trials", n)
		}
	}
	if len(s.computed) > maxComputed {
		t.Errorf("%d runs are kept", len(s.computed))
	}
}

// FuzzRun: whatever run.json and results.json say, the run can be told of.
func FuzzRun(f *testing.F) {
	f.Add([]byte(`{"id": "a", "started": "2026-01-02T03:04:05Z", "ended": "9999-01-02T03:04:05Z", "trials_per_task": -3, "tasks": [{"id": "x"}], "eval": {"name": "\u202e"}}`),
		[]byte(`{"eval_name": "a", "summary": {"succeeded": -1, "statistics": {"pass_at_k": [1e308]}}, "metrics": {"m": {}}, "tasks": []}`))
	f.Add([]byte(`null`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, record, figures []byte) {
		dir := t.TempDir()
		lay(t, filepath.Join(dir, "a", runner.RunFile), string(record))
		lay(t, filepath.Join(dir, "a", runner.ResultsFile), string(figures))
		runs, err := newRuns(dir, func(string) bool { return false }).list()
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		if err := (report.Document{Served: true}).Write(io.Discard, page{pages: []report.Page{report.Runs(dir, 1, runs)}}.all); err != nil {
			t.Error(err)
		}
	})
}
