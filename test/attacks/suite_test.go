package attacks

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner"
)

// figures names the file that TestAttacks writes its figures to.
var figures = flag.String("figures", "", "write the figures of the suite to this `FILE`")

func TestMain(m *testing.M) {
	// A client of a cluster keeps its connection for the next client.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))
}

// tally counts the results of attacks.
type tally struct {
	tried, succeeded   int
	neighbours, harmed int   // harmless trials
	peak               int64 // bytes of memory of the runner
}

func (a tally) with(b tally) tally {
	return tally{a.tried + b.tried, a.succeeded + b.succeeded, a.neighbours + b.neighbours, a.harmed + b.harmed, max(a.peak, b.peak)}
}

// TestAttacks carries out every attack, once, and no attack may succeed. Those that need
// no run of their own take place in one, with harmless trials between them.
func TestAttacks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	hostile, err := build{name: "hostile", hostile: true}.make(t)
	if err != nil {
		t.Fatal(err)
	}
	sum := s.carryOut(t, All(), 1, func(a Attack) string {
		if a.Alone != nil && a.Alone.Hostile {
			return hostile
		}
		return s.waza
	})
	s.figure("attacks tried %d, succeeded %d; neighbouring trials %d, harmed %d; peak memory of the runner %d MiB",
		sum.tried, sum.succeeded, sum.neighbours, sum.harmed, sum.peak>>20)
}

// carryOut carries out attacks, so many runs at a time, by the executables that with returns for
// the first of each run.
func (s *stage) carryOut(t *testing.T, attacks []Attack, atOnce int, with func(Attack) string) tally {
	t.Helper()
	var mu sync.Mutex
	var sum tally // guarded by mu
	var runs []sub
	for _, some := range separate(attacks) {
		runs = append(runs, sub{nameOf(some), func(t *testing.T) {
			of := judge(t, s.run(t, with(some[0]), withTrials(some), false), some)
			mu.Lock()
			defer mu.Unlock()
			sum = sum.with(of)
		}})
	}
	sideBySide(t, atOnce, runs)
	if sum.tried != len(attacks) {
		t.Errorf("%d attacks were tried, of %d", sum.tried, len(attacks))
	}
	return sum
}

// sub is a subtest.
type sub struct {
	name string
	do   func(*testing.T)
}

// sideBySide runs subtests in order, atOnce at a time.
func sideBySide(t *testing.T, atOnce int, subs []sub) {
	t.Helper()
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, one := range subs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			t.Run(one.name, one.do)
		})
	}
	all.Wait()
}

// judge judges the attacks of a run.
func judge(t *testing.T, r *Run, attacks []Attack) tally {
	t.Helper()
	of := tally{neighbours: r.Neighbours, harmed: len(r.Harmed), peak: r.PeakRSS}
	if len(r.Harmed) > 0 {
		t.Errorf("harmed:\n  %s", strings.Join(r.Harmed, "\n  "))
	}
	for _, a := range attacks {
		t.Run(a.Name, func(t *testing.T) {
			won, detail := a.Won(r.scene(a))
			of.tried++
			switch {
			case won:
				of.succeeded++
				t.Errorf("it succeeded: %s", detail)
			case a.Tried != nil && !a.Tried(r.scene(a)):
				t.Errorf("it was not tried")
			}
			t.Logf("%s", detail)
		})
	}
	if t.Failed() {
		t.Logf("waza, exit code %d:\n%s", r.Exit, r.Output)
	}
	t.Logf("the run took %s", r.Took)
	if len(r.Left) > 0 && !r.Killed {
		t.Errorf("left on the engine:\n  %s", strings.Join(r.Left, "\n  "))
	}
	return of
}

// TestControls takes every defence out, and each attack that it holds must succeed.
func TestControls(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var shown atomic.Int64
	sideBySide(t, max(1, runtime.NumCPU()/2), s.controls(t, &shown)) // beside TestAttacks, four trials in each run
	s.figure("defences taken out %d, in %d builds; attacks that succeeded then %d", len(removable()), len(builds()), shown.Load())
}

// controls are runs of weakened executables, the largest first.
func (s *stage) controls(t *testing.T, shown *atomic.Int64) []sub {
	sizes := map[string]int{}
	var runs []sub
	for _, b := range builds() {
		var attacks []Attack
		for _, a := range All() {
			if a.Without.Build == b.name {
				attacks = append(attacks, a)
			}
		}
		weakened := sync.OnceValues(func() (string, error) { return b.make(t) })
		for _, some := range separate(attacks) {
			name := b.name + "-" + nameOf(some)
			sizes[name] = len(some)
			runs = append(runs, sub{name, func(t *testing.T) {
				waza, err := weakened()
				if err != nil {
					t.Fatal(err)
				}
				shown.Add(s.show(t, waza, some))
			}})
		}
	}
	slices.SortStableFunc(runs, func(a, b sub) int { return sizes[b.name] - sizes[a.name] })
	return runs
}

// show runs attacks with an executable without their defenses, and returns how many
// succeed.
func (s *stage) show(t *testing.T, waza string, attacks []Attack) (succeeded int64) {
	t.Helper()
	r := s.run(t, waza, withTrials(attacks), true)
	checkGuest(t, r)
	for _, a := range attacks {
		won, detail := a.Won(r.scene(a))
		if won {
			succeeded++
		} else {
			t.Errorf("without %q, %s does not succeed: %s", a.Without.Name, a.Name, detail)
		}
		t.Logf("%s: %s", a.Name, detail)
	}
	if t.Failed() {
		t.Logf("waza, exit code %d:\n%s", r.Exit, r.Output)
	}
	t.Logf("the run took %s", r.Took)
	return succeeded
}

// checkGuest checks that process 1 of the run's containers on Docker was its executable, which lacks
// defences, and no other that has them.
func checkGuest(t *testing.T, r *Run) {
	t.Helper()
	record, err := runner.ReadRecord(r.Dir)
	if err != nil || record.Engine["engine"] != "docker" { // it was killed before, or is a cluster's
		return
	}
	own, err := files.Digest(r.Waza)
	if err != nil {
		t.Fatal(err)
	}
	if guest := record.Engine["guest"]; guest != own {
		t.Errorf("the guest is %s and not the weakened executable %s", guest, own)
	}
}

// nameOf is the name of a run of attacks.
func nameOf(attacks []Attack) string {
	if attacks[0].Alone != nil {
		return attacks[0].Name
	}
	return "together"
}

// figure writes a line of figures.
func (s *stage) figure(format string, args ...any) {
	s.t.Helper()
	line := fmt.Sprintf(format, args...)
	s.t.Log(line)
	if *figures == "" {
		return
	}
	f, err := os.OpenFile(*figures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		s.t.Error(err)
	}
	if err := f.Close(); err != nil {
		s.t.Error(err)
	}
}

// separate are attacks by the runs that they need.
func separate(attacks []Attack) [][]Attack {
	var runs [][]Attack
	at := map[string]int{} // by the attack that needs a run of its own; "" is the others'
	for _, a := range attacks {
		own := ""
		if slices.ContainsFunc(All(), func(b Attack) bool { return b.Name == a.taskOf() && b.Alone != nil }) {
			own = a.taskOf()
		}
		if _, begun := at[own]; !begun {
			at[own] = len(runs)
			runs = append(runs, nil)
		}
		runs[at[own]] = append(runs[at[own]], a)
	}
	return runs
}

// withTrials are attacks with those in whose trials some take place.
func withTrials(attacks []Attack) []Attack {
	all := slices.Clone(attacks)
	for _, a := range attacks {
		if a.In != "" && !slices.ContainsFunc(all, func(b Attack) bool { return b.Name == a.In }) {
			i := slices.IndexFunc(All(), func(b Attack) bool { return b.Name == a.In })
			all = append(all, All()[i])
		}
	}
	return all
}
