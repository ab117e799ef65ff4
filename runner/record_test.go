package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// gradeTrials grades every trial of a run directory from its evidence.
func gradeTrials(dir string) error {
	return Regrading{Dir: dir}.gradeTrials(context.Background(), Record{}, nil)
}

// aRun is a run directory with a trial that passed, one that failed, one that is
// infra, and what an interrupted one leaves.
func aRun(t *testing.T) (dir string, record Record) {
	t.Helper()
	o := options(t)
	o.Dir = filepath.Join(o.Dir, "run [1]*?") // nothing in a path is a pattern
	b := testBackend()
	b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
		if p.container.spec.Number == 1 {
			return buyer("stock").run(p)
		}
		io.WriteString(p.out, "nothing")
		return 0
	}}
	opened := 0
	b.on["open"] = func(int) error {
		if opened++; opened == 3 {
			return errGone
		}
		return nil
	}
	done, err := runTrials(t, t.Context(), b, []*plan.Trial{testTrial(1), testTrial(2), testTrial(3)}, o)
	if err != nil || len(done) != 3 {
		t.Fatalf("%d results, %v", len(done), err)
	}
	if _, err := evidence.Create(string(TrialDir(o.Dir, "buy", 4)), o.Host.Secrets, nil); err != nil {
		t.Fatal(err)
	}
	return o.Dir, Record{
		ID: "run-1", Started: done[0].Trial.Started, Ended: time.Now().UTC(), Choices: Choices{Trials: 4, Timeout: 2 * time.Minute},
		Eval:  EvalRecord{Name: "shop", Executor: "command", TimeoutSeconds: 60},
		Tasks: []TaskRecord{{ID: "buy", Name: "Buy a bolt"}},
	}
}

func TestDigests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		if err := record.WriteDigests(dir); err != nil {
			t.Fatal(err)
		}
		sealed, err := ReadRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "trials", "buy", "1", "trial.json"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if got := sealed.Files["trials/buy/1/trial.json"]; got != hex.EncodeToString(sum[:]) {
			t.Errorf("digest %q", got)
		}
		for _, name := range []string{RunFile, ResultsFile, "trials/buy/1/verdicts.json"} {
			if sealed.Files[name] != "" {
				t.Errorf("a digest of %s, which is no evidence", name)
			}
		}
		sealed.Files = nil
		if diff := cmp.Diff(record, sealed); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGradingAgainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		first, err := WriteResults(dir, record)
		if err != nil || first.Config.TimeoutSec != 120 {
			t.Fatalf("timeout %d, %v", first.Config.TimeoutSec, err)
		}
		if err := record.WriteDigests(dir); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		read, err := ReadRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := gradeTrials(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteResults(dir, read); err != nil {
			t.Fatal(err)
		}
		if err := read.WriteDigests(dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestGradingWhatACrashLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		verdicts := filepath.Join(dir, "trials", "buy", "1", evidence.VerdictsFile)
		before, err := os.ReadFile(verdicts)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(verdicts); err != nil {
			t.Fatal(err)
		}
		ungraded, err := WriteResults(dir, record)
		if err != nil {
			t.Fatal(err)
		}
		if err := gradeTrials(dir); err != nil {
			t.Fatal(err)
		}
		graded, err := WriteResults(dir, record)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(verdicts); err != nil || string(after) != string(before) {
			t.Errorf("verdicts %s, %v, want %s", after, err, before)
		}
		if a, b := runs(ungraded), runs(graded); a != 2 || b != 3 {
			t.Errorf("%d and then %d trials in the results", a, b)
		}
	})
}

func runs(r results.Results) (n int) {
	for _, task := range r.Tasks {
		n += len(task.Runs)
	}
	return n
}

func TestTrialsInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b/1", "a/10", "a/2", "a/1", "a-b/1", "a/9"} {
		at := filepath.Join(dir, "trials", filepath.FromSlash(name))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, evidence.TrialFile), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "trials", "c", "1"), 0o755); err != nil { // has not ended
		t.Fatal(err)
	}
	found, err := Trials(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range found {
		name, err := filepath.Rel(filepath.Join(dir, "trials"), string(d))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(name))
	}
	if diff := cmp.Diff([]string{"a/1", "a/2", "a/9", "a/10", "a-b/1", "b/1"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestReadRecordOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "eval.yaml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file, filepath.Join(dir, "nothing")} {
		if _, err := ReadRecord(path); err == nil || !strings.Contains(err.Error(), path+" is not a run directory: it has no run.json") {
			t.Errorf("%v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecord(dir); err == nil || !strings.Contains(err.Error(), RunFile) {
		t.Errorf("%v", err)
	}
}

func TestNewRecord(t *testing.T) {
	eval, tasks, err := eval.Load(filepath.Join("plan", "testdata", "shop", "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := recordOf(eval, tasks, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(eval.Path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	r.Started = time.Time{}
	want := Record{
		Eval: EvalRecord{
			Path: eval.Path, SHA256: hex.EncodeToString(sum[:]), Name: "shop", Skill: "shopping", Version: "2",
			Executor: "command", Model: "small-1", TimeoutSeconds: 90,
		},
		Tasks:   []TaskRecord{{ID: "buy", Name: "Buy a bolt", File: "tasks/1-buy.yaml", Line: 1}, {ID: "ask", Name: "ask", File: "tasks/2-ask.yaml", Line: 1}},
		Metrics: []results.MetricSpec{{Name: "task_completion", Weight: 2, Threshold: 0.5}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	overlay, err := mcpconfig.ReadClient("mcp.json", []byte(`{"servers": {"b": {"command": "b"}, "a": {"command": "a"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r, err = recordOf(eval, tasks, overlay); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&MCPRecord{Path: "mcp.json", SHA256: overlay.SHA256, Servers: []string{"a", "b"}}, r.MCP); diff != "" {
		t.Error(diff)
	}
	eval.Path = filepath.Join(t.TempDir(), "gone.yaml")
	if _, err := recordOf(eval, tasks, nil); err == nil {
		t.Error("an eval that is gone has a record")
	}
}

// Grading writes verdicts of trials, not of what was set aside before them.
func TestRegraded(t *testing.T) {
	for name, want := range map[string]bool{
		"trials/buy/1/verdicts.json": true, "trials/buy/1/checkpoints/1/verdicts.json": true, "results.json": true, "report.html": true,
		"trials/buy/1/" + evidence.AttemptsDir + "/1/verdicts.json": false, "trials/buy/1/" + evidence.InterruptedDir + "/1/verdicts.json": false,
		"trials/buy/1/trial.json": false,
	} {
		if got := regraded(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A server that was built from other source differs, though its image has another reference.
func TestSettingsOfBuiltImages(t *testing.T) {
	of := func(refs ...string) (all []results.Setting) {
		r := Record{Images: evidence.ImageRecords{}}
		for _, ref := range refs {
			r.Images[ref] = evidence.ImageRecord{ID: "sha256:0123456789abcdef"}
		}
		return slices.DeleteFunc(r.Settings(), func(s results.Setting) bool { return !strings.HasPrefix(s.Name, "image ") })
	}
	want := []results.Setting{{Name: "image example/stock:1", Value: "0123456789ab"}, {Name: "image waza-source", Value: "aaaaaaaaaaaa, bbbbbbbbbbbb"}}
	if diff := cmp.Diff(want, of("waza-source:bbbbbbbbbbbbbb", "example/stock:1", "waza-source:aaaaaaaaaaaaaa")); diff != "" {
		t.Error(diff)
	}
}
