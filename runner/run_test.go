package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

func TestEvidenceThatCannotBeKept(t *testing.T) {
	t.Run("a directory with evidence", func(t *testing.T) {
		b, o := testBackend(), options(t)
		runOne(t, b, testTrial(1), o)
		results, err := runTrials(t, t.Context(), b, []*plan.Trial{testTrial(1)}, o)
		if len(results) != 0 || !errors.Is(err, os.ErrExist) || len(b.opened()) != 1 {
			t.Errorf("results %v, %v, %d sandboxes", results, err, len(b.opened()))
		}
	})
	t.Run("a directory that is gone", func(t *testing.T) {
		b, o := testBackend(), options(t)
		b.on["close"] = func(int) error { return os.RemoveAll(filepath.Join(o.Dir, "trials")) }
		results, err := runTrials(t, t.Context(), b, []*plan.Trial{testTrial(1)}, o)
		if len(results) != 0 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("results %v, %v", results, err)
		}
	})
}

func TestWorkersBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		b, o := testBackend(), options(t)
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(10 * time.Second)
			now.Add(-1)
			io.WriteString(p.out, "4.20")
			return 0
		}}
		o.Workers = 3
		var trials []*plan.Trial
		for number := range 7 {
			trials = append(trials, testTrial(number+1))
		}
		start := time.Now()
		results, err := runTrials(t, t.Context(), b, trials, o)
		if err != nil || len(results) != 7 || most.Load() != 3 || time.Since(start).Round(time.Second) != 30*time.Second {
			t.Errorf("%d results, %v, %d at once, took %v", len(results), err, most.Load(), time.Since(start))
		}
		var numbers []int
		for _, r := range results {
			numbers = append(numbers, r.Trial.Number)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 7}, numbers); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailFast(t *testing.T) {
	for _, test := range []struct {
		failFast bool
		want     int
	}{{true, 2}, {false, 4}} {
		synctest.Test(t, func(t *testing.T) {
			b, o := testBackend(), options(t)
			var runs atomic.Int64
			b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
				if runs.Add(1) == 2 {
					return 1
				}
				io.WriteString(p.out, "4.20")
				return 0
			}}
			o.FailFast = test.failFast
			results, err := runTrials(t, t.Context(), b, []*plan.Trial{testTrial(1), testTrial(2), testTrial(3), testTrial(4)}, o)
			if err != nil || len(results) != test.want || len(b.opened()) != test.want {
				t.Errorf("fail_fast %v: %d results, %v", test.failFast, len(results), err)
			}
		})
	}
}

func TestHold(t *testing.T) {
	for _, test := range []struct {
		name       string
		secondOpen error // of the listener
		held       bool
	}{
		{"until a person leaves", nil, true},
		{"interrupted on the way", context.Canceled, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				b, o := testBackend(), options(t)
				held := false
				b.on["listen"] = func(number int) error {
					if number == 2 && test.secondOpen != nil {
						cancel()
						return test.secondOpen
					}
					return nil
				}
				o.Host.Hold = func(ctx context.Context, trial *plan.Trial, s sandbox.Sandbox) {
					held = true
					if answer, err := callStock(s.(*fakeSandbox), "stock"); err != nil || !strings.Contains(answer, "4.20") {
						t.Errorf("no server within reach: %q, %v", answer, err)
					}
					time.Sleep(time.Hour)
					cancel()
					<-ctx.Done()
				}
				results, err := runTrials(t, ctx, b, []*plan.Trial{testTrial(1)}, o)
				if err != nil || len(results) != 1 || held != test.held {
					t.Fatalf("results %v, %v, held %v", results, err, held)
				}
				wantOutcome(t, results[0], evidence.ClassPass, "")
				calls, err := results[0].Dir.Calls()
				if err != nil || len(calls) != 1 {
					t.Errorf("calls %v, %v, want the agent's alone", calls, err)
				}
				if took := results[0].Trial.Ended.Sub(results[0].Trial.Started); took > time.Minute {
					t.Errorf("the trial is said to have taken %v", took)
				}
				if s := b.opened()[0]; s.count("close") != 1 {
					t.Errorf("acts %q", s.log())
				}
			})
		})
	}
}
