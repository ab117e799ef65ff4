package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// failsFirst fails an act the first n times, over all sandboxes.
func failsFirst(n int) func(int) error {
	return func(int) error {
		if n--; n >= 0 {
			return errors.New("hiccup")
		}
		return nil
	}
}

func TestInfraIsRunAgain(t *testing.T) {
	for _, test := range []struct {
		failures, retries int
		class             evidence.Class
		attempts          int
	}{
		{0, 2, evidence.ClassPass, 1},
		{1, 2, evidence.ClassPass, 2},
		{2, 2, evidence.ClassPass, 3},
		{3, 2, evidence.ClassInfra, 3},
		{1, 0, evidence.ClassInfra, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, o, seen := testBackend(), options(t), &updates{}
			b.on["start stock"] = failsFirst(test.failures)
			o.InfraRetries, o.Progress = test.retries, seen.add
			r := runOne(t, b, testTrial(1), o)
			if r.Verdicts.Class != test.class || r.Trial.Attempt != test.attempts || len(r.Earlier) != test.attempts-1 {
				t.Fatalf("%+v: %s in attempt %d after %d", test, r.Verdicts.Class, r.Trial.Attempt, len(r.Earlier))
			}
			for i, earlier := range r.Earlier {
				if earlier.Attempt != i+1 || earlier.Class != evidence.ClassInfra || earlier.Reason != evidence.ReasonServer {
					t.Errorf("%+v: attempt %d was %d: %s (%s)", test, i+1, earlier.Attempt, earlier.Class, earlier.Reason)
				}
			}
			again := 0
			for _, u := range seen.all {
				if u.Phase == evidence.PhaseAgain {
					again++
				}
			}
			if again != test.attempts-1 || seen.all[len(seen.all)-1].Phase != evidence.PhaseDone {
				t.Errorf("%+v: %d updates of another attempt", test, again)
			}
			for i, s := range b.opened() {
				if s.spec.Attempt != i+1 {
					t.Errorf("sandbox %d is of attempt %d", i+1, s.spec.Attempt)
				}
			}
			checkAttempts(t, o.Dir, test.attempts, test.class)
		})
	}
}

// checkAttempts looks at what a run with one trial has left, and grades it again.
func checkAttempts(t *testing.T, dir string, attempts int, class evidence.Class) {
	t.Helper()
	record := Record{ID: "run-1", Choices: Choices{Trials: 1}, Eval: EvalRecord{Name: "shop"}, Tasks: []TaskRecord{{ID: "buy"}}}
	summary, err := WriteResults(dir, record)
	if err != nil {
		t.Fatal(err)
	}
	run := summary.Tasks[0].Runs[0]
	if run.Outcome != class || run.Attempts != attempts || len(run.Earlier) != attempts-1 || summary.Summary.Again != attempts-1 {
		t.Errorf("results: %s in attempt %d, earlier %+v", run.Outcome, run.Attempts, run.Earlier)
	}
	want := 0
	if class == evidence.ClassInfra {
		want = results.ExitIncomplete
	}
	if code := summary.ExitCode(record.Planned(), record.FailFast); code != want {
		t.Errorf("exit code %d", code)
	}
	if err := record.WriteDigests(dir); err != nil {
		t.Fatal(err)
	}
	sealed, err := ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	if err := gradeTrials(dir); err != nil {
		t.Fatal(err)
	}
	again, err := WriteResults(dir, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summary, again, cmp.AllowUnexported(results.Results{}, results.Stats{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error(diff)
	}
	if attempts == 1 {
		return
	}
	const kept = "trials/buy/1/attempts/1/verdicts.json"
	if err := os.WriteFile(filepath.Join(dir, kept), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if changed, err := sealed.Files.Changed(dir); err != nil || !slices.Equal(changed, []string{kept}) {
		t.Errorf("changed %q, %v", changed, err)
	}
}

// Only infra is run again.
func TestOthersAreNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := testBackend(), options(t)
		b.programs[sandbox.Agent], o.InfraRetries = ends(3), 2
		if r := runOne(t, b, testTrial(1), o); len(b.opened()) != 1 || r.Trial.Attempt != 1 {
			t.Errorf("%d sandboxes", len(b.opened()))
		}
	})
}

// A backend that went away is waited for, once for all. Where it does not come back
// the trials at work have an outcome, and no further one is started.
func TestWaitingForTheBackend(t *testing.T) {
	t.Run("comes back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, o := testBackend(), options(t)
			away := true
			b.on["open"] = func(int) error {
				if away {
					return sandbox.ErrEngineGone
				}
				return nil
			}
			o.InfraRetries = 1
			done, err := runTrials(t, t.Context(), recovering{b, func(context.Context) error { time.Sleep(30 * time.Second); away = false; return nil }}, []*plan.Trial{testTrial(1)}, o)
			if err != nil || len(done) != 1 || done[0].Verdicts.Class != evidence.ClassPass || len(done[0].Earlier) != 1 || done[0].Earlier[0].Reason != evidence.ReasonEngine {
				t.Errorf("%+v, %v", done, err)
			}
		})
	})
	t.Run("does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, o := testBackend(), options(t)
			b.on["open"] = fails(sandbox.ErrEngineGone)
			o.InfraRetries, o.Workers = 5, 2
			var trials []*plan.Trial
			for number := range 10 {
				trials = append(trials, testTrial(number+1))
			}
			began := time.Now()
			done, err := runTrials(t, t.Context(), recovering{b, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, trials, o)
			if !errors.Is(err, context.DeadlineExceeded) || len(done) < 1 || len(done) > o.Workers || time.Since(began) > 2*recoverTimeout {
				t.Errorf("%d results after %v, %v", len(done), time.Since(began), err)
			}
			for _, r := range done {
				if r.Verdicts.Class != evidence.ClassInfra || r.Verdicts.Reason != evidence.ReasonEngine || len(r.Earlier) > 0 {
					t.Errorf("%s (%s) after %d", r.Verdicts.Class, r.Verdicts.Reason, len(r.Earlier))
				}
			}
		})
	})
}

// A server that exits by itself before it answers is its own failure: tried once, and never
// graded. Where somebody else ended its container it is infra.
func TestServerThatExits(t *testing.T) {
	exits := program{run: func(p *fakeProcess) int {
		io.WriteString(p.err, "no license\n"+strings.Repeat("trace\n", 1000)+"giving up\n")
		return 3
	}}
	for _, lost := range []sandbox.Cause{"", sandbox.FromOutside} {
		synctest.Test(t, func(t *testing.T) {
			b, o := testBackend(), options(t)
			b.programs["stock"] = exits
			o.InfraRetries = 2
			if lost != "" {
				b.on["start stock"] = func(int) error {
					b.opened()[len(b.opened())-1].lose("stock", sandbox.Exit{Cause: lost})
					return nil
				}
			}
			r := runOne(t, b, testTrial(1), o)
			if lost != "" {
				if r.Verdicts.Class != evidence.ClassInfra || r.Trial.FailedServer != "" {
					t.Errorf("ended by somebody else: %s, %q", r.Verdicts.Class, r.Trial.FailedServer)
				}
				return
			}
			if r.Verdicts.Class != evidence.ClassServerError || r.Trial.Attempt != 1 || len(r.Verdicts.Verdicts) > 0 || r.Trial.FailedServer != "stock" {
				t.Errorf("%s in attempt %d of %q, %d verdicts", r.Verdicts.Class, r.Trial.Attempt, r.Trial.FailedServer, len(r.Verdicts.Verdicts))
			}
			for _, said := range []string{"before it answered", "no license\ntrace", "bytes left out", "\ngiving up"} {
				if !strings.Contains(r.Verdicts.Message, said) {
					t.Errorf("no %q in %s", said, r.Verdicts.Message)
				}
			}
		})
	}
}
