package results

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/evidence"
)

// shares returns a run with tasks of the given numbers of trials and passes.
func shares(trials int, passed ...int) Entry {
	var e Entry
	for i, p := range passed {
		task := TaskOutline{ID: fmt.Sprint("t", i)}
		for n := range trials {
			task.Trials = append(task.Trials, TrialOutline{Outcome: ended(n < p)})
		}
		e.Tasks = append(e.Tasks, task)
	}
	return e
}

func ended(passed bool) evidence.Class {
	if passed {
		return evidence.ClassPass
	}
	return evidence.ClassFail
}

func TestPairedPassRate(t *testing.T) {
	for _, test := range []struct {
		name               string
		before, after      Entry
		mean, lower, upper float64
		want               Finding
	}{
		// Differences -0.5, 0 and -0.25 spread by 0.25; t with 2 degrees is 4.302653.
		{"three tasks", shares(4, 4, 2, 4), shares(4, 2, 2, 3), -.25, -.25 - 4.302653*.25/math.Sqrt(3), -.25 + 4.302653*.25/math.Sqrt(3), NoDifference},
		// -0.5, -0.5, -0.25 and -0.75 spread by √(0.125/3); t with 3 degrees is 3.182446.
		{"four tasks", shares(4, 4, 4, 4, 4), shares(4, 2, 2, 3, 1), -.5, -.824807, -.175193, Worse},
		{"the other way", shares(4, 2, 2, 3, 1), shares(4, 4, 4, 4, 4), .5, .175193, .824807, Better},
		// Without spread Wilson's, of 0 in 5 and of 2.5 in 5, brought to -1..1.
		{"each from all to none", shares(2, 2, 2, 2, 2, 2), shares(2, 0, 0, 0, 0, 0), -1, -1, 2*.434482 - 1, Worse},
		{"each as it was", shares(1, 1, 0, 1, 0, 1), shares(1, 1, 0, 1, 0, 1), 0, 2*.170424 - 1, 2*.829576 - 1, NoDifference},
		// One task: Newcombe's own example.
		{"one task", Entry{Outline: Outline{Tasks: shares(80, 48).Tasks}}, Entry{Outline: Outline{Tasks: shares(70, 56).Tasks}}, .2, .0524, .3339, Better},
		{"one task of few trials", shares(2, 2), shares(2, 0), -1, -1, -.0700, NoDifference},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Compare([]Entry{test.before, test.after}).Pairs[0].PassRate
			for _, v := range [][2]float64{{got.Difference.Mean, test.mean}, {got.Difference.Lower, test.lower}, {got.Difference.Upper, test.upper}} {
				if math.Abs(v[0]-v[1]) > 1e-4 {
					t.Errorf("%+v; want %v [%v, %v]", *got.Difference, test.mean, test.lower, test.upper)
				}
			}
			if got.Finding != test.want || !near(got.After-got.Before, test.mean) {
				t.Errorf("%+v; want %s", *got, test.want)
			}
		})
	}
}

// Of 1, 2, 3 and 2, 3, 5 the shares of the means are off each other by 0.1, -0.1 and 0, so
// the logarithm of 5/3 has a standard error of √(0.02/6).
func TestPairedRatio(t *testing.T) {
	var before, after Entry
	for i, v := range [][2]int64{{1, 2}, {2, 3}, {3, 5}} {
		trial := func(tokens int64) []TrialOutline {
			return []TrialOutline{{Outcome: evidence.ClassPass, SessionOutline: SessionOutline{Usage: &ModelFigures{InputTokens: tokens}}, DurationMS: 1000 * tokens}}
		}
		before.Tasks = append(before.Tasks, TaskOutline{ID: fmt.Sprint(i), Trials: trial(v[0])})
		after.Tasks = append(after.Tasks, TaskOutline{ID: fmt.Sprint(i), Trials: trial(v[1])})
	}
	p := Compare([]Entry{before, after}).Pairs[0]
	half := math.Exp(4.302653 * math.Sqrt(.02/6))
	for name, got := range map[string]*Contrast{"tokens": p.Tokens, "time": p.Duration} {
		r := got.Ratio
		if math.Abs(r.Mean-5./3) > 1e-9 || math.Abs(r.Lower-5/3./half) > 1e-4 || math.Abs(r.Upper-5/3.*half) > 1e-4 || got.Finding != Worse {
			t.Errorf("%s: %+v, %+v", name, *got, *r)
		}
	}
	if p.Cost != nil || p.Tokens.Before != 2 || p.Duration.Before != 2000 {
		t.Errorf("%+v", p)
	}
}

// Figures out of range are ignored, and a comparison is still valid JSON.
func TestRatioBeyondMeasure(t *testing.T) {
	costs := func(of float64) Entry {
		e := shares(1, 1, 1)
		for i := range e.Tasks {
			cost := of * float64(i+1)
			e.Tasks[i].Trials[0].Usage = &ModelFigures{Cost: &cost}
		}
		return e
	}
	for _, test := range [][2]float64{{5e-324, 1e12}, {1e12, 5e-324}, {1e-300, 1e-300}} {
		c := Compare([]Entry{costs(test[0]), costs(test[1])})
		if cost := c.Pairs[0].Cost; cost.Finding.Shown() || (cost.Ratio == nil) != (test[0] != test[1]) {
			t.Errorf("%v: %+v", test, *cost)
		}
		if _, err := evidence.Marshal(c); err != nil {
			t.Errorf("%v: %v", test, err)
		}
	}
}

// A task with one trial in each run flips, which is not significant.
func TestFlip(t *testing.T) {
	for _, trials := range []int{1, 2} {
		d := Compare([]Entry{shares(trials, trials), shares(trials, 0)}).Differences[0]
		if d.Change != NowFailing || d.Finding != NoDifference || !d.Few || d.PassRate.Mean != -1 {
			t.Errorf("%d trials: %+v", trials, d)
		}
	}
	if d := Compare([]Entry{shares(3, 3), shares(3, 0)}).Differences[0]; d.Finding != Worse || d.Few {
		t.Errorf("3 trials: %+v", d)
	}
}

// If both runs are equal, a task's difference is found by chance hardly more often than a
// 95% interval allows, at any pass rate.
func TestChanceOfAFinding(t *testing.T) {
	const most = 0.095
	for before := 1; before <= 12; before++ {
		for after := before; after <= 12; after++ {
			shown := findings(before, after)
			for p := 0.02; p < 1; p += 0.02 {
				chance := 0.0
				for _, c := range shown {
					chance += binomial(before, c[0], p) * binomial(after, c[1], p)
				}
				if chance > most {
					t.Fatalf("%d and %d trials that pass with %.2f: shown with %.3f", before, after, p, chance)
				}
			}
		}
	}
}

// findings are what may pass of so many trials for a difference to be shown.
func findings(before, after int) (shown [][2]int) {
	for b := range before + 1 {
		for a := range after + 1 {
			x, y := wilson(b, before), wilson(a, after)
			_, finding := newcombe(ComparedTask{Passed: b, Trials: before, PassRate: &x}, ComparedTask{Passed: a, Trials: after, PassRate: &y})
			if finding.Shown() {
				shown = append(shown, [2]int{b, a})
			}
		}
	}
	return shown
}

func binomial(n, k int, p float64) float64 {
	chance := math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
	for i := range k {
		chance *= float64(n-i) / float64(k-i)
	}
	return chance
}

// The interval of the paired difference contains the true one in about 95 of 100 evals, with
// tasks that differ in difficulty and in how much harder they get.
func TestCoverage(t *testing.T) {
	const evals, tasks, trials, change = 1000, 12, 5, -0.1
	random := rand.New(rand.NewPCG(1, 2))
	passes := func(chance float64) (passed int) {
		for range trials {
			if random.Float64() < chance {
				passed++
			}
		}
		return passed
	}
	held, shown := 0, 0
	for range evals {
		var before, after, same []int
		for range tasks {
			chance := 0.3 + 0.5*random.Float64()
			before, same = append(before, passes(chance)), append(same, passes(chance))
			after = append(after, passes(chance+change+0.4*(random.Float64()-0.5)))
		}
		c := Compare([]Entry{shares(trials, before...), shares(trials, after...), shares(trials, same...)})
		if i := c.Pairs[0].PassRate.Difference; i.Lower <= change && change <= i.Upper {
			held++
		}
		if c.Pairs[1].PassRate.Finding.Shown() {
			shown++
		}
	}
	t.Logf("holds the true difference in %d of %d; shows one where there is none in %d", held, evals, shown)
	if held < evals*93/100 || held > evals*97/100 || shown > evals*7/100 {
		t.Errorf("holds it in %d of %d; shows one where there is none in %d", held, evals, shown)
	}
}

// anyRun draws a run with some of a few tasks and arbitrary trials.
func anyRun(t *rapid.T, name string) Entry {
	class := rapid.SampledFrom([]evidence.Class{evidence.ClassPass, evidence.ClassPass, evidence.ClassFail, evidence.ClassInfra})
	trial := rapid.Custom(func(t *rapid.T) TrialOutline {
		o := TrialOutline{Outcome: class.Draw(t, "outcome"), DurationMS: int64(rapid.IntRange(0, 5000).Draw(t, "ms"))}
		if rapid.Bool().Draw(t, "models") {
			cost := rapid.Float64Range(0, 3).Draw(t, "cost")
			o.Usage = &ModelFigures{InputTokens: int64(rapid.IntRange(0, 9000).Draw(t, "tokens")), Cost: &cost}
		}
		return o
	})
	var e Entry
	for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), rapid.ID[string]).Draw(t, name) {
		e.Tasks = append(e.Tasks, TaskOutline{ID: id, Trials: rapid.SliceOfN(trial, 0, 6).Draw(t, id)})
	}
	return e
}

func TestComparisonProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRun(t, "a"), anyRun(t, "b")
		there, back := Compare([]Entry{a, b}), Compare([]Entry{b, a})
		mirrored(t, there.Pairs[0], back.Pairs[0])
		for _, d := range there.Differences {
			if i := slices.IndexFunc(back.Differences, func(o Difference) bool { return o.Task == d.Task }); i >= 0 {
				opposed(t, d.PassRate, back.Differences[i].PassRate, negative)
				if back.Differences[i].Finding != d.Finding.reversed() {
					t.Fatalf("%+v and %+v", d, back.Differences[i])
				}
			}
		}
		for _, c := range contrasts(Compare([]Entry{a, a}).Pairs[0]) {
			if c != nil && c.Finding.Shown() {
				t.Fatalf("of one run twice: %+v", *c)
			}
		}
		shuffled := Compare([]Entry{reordered(t, a), reordered(t, b)})
		for i, c := range contrasts(shuffled.Pairs[0]) {
			alike(t, c, contrasts(there.Pairs[0])[i])
		}
		if diff := cmp.Diff(there.Differences, shuffled.Differences); diff != "" {
			t.Fatal(diff)
		}
	})
}

func reordered(t *rapid.T, e Entry) Entry {
	e.Tasks = rapid.Permutation(e.Tasks).Draw(t, "other order")
	return e
}

func contrasts(p Pair) []*Contrast { return []*Contrast{p.PassRate, p.Duration, p.Tokens, p.Cost} }

// mirrored fails unless one pair is the reverse of the other.
func mirrored(t *rapid.T, there, back Pair) {
	if there.Missing != back.Added || there.Tasks != back.Tasks {
		t.Fatalf("%+v and %+v", there, back)
	}
	for i, c := range contrasts(there) {
		o := contrasts(back)[i]
		if (c == nil) != (o == nil) {
			t.Fatalf("%+v and %+v", there, back)
		}
		if c == nil {
			continue
		}
		opposed(t, c.Difference, o.Difference, negative)
		opposed(t, c.Ratio, o.Ratio, func(v float64) float64 { return 1 / v })
		if !near(c.Before, o.After) || c.Finding != o.Finding.reversed() {
			t.Fatalf("%+v and %+v", *c, *o)
		}
	}
}

func negative(v float64) float64 { return -v }

func opposed(t *rapid.T, a, b *Interval, turn func(float64) float64) {
	if a == nil && b == nil {
		return
	}
	close := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(1, math.Abs(x)) }
	if !close(a.Mean, turn(b.Mean)) || !close(a.Lower, turn(b.Upper)) || !close(a.Upper, turn(b.Lower)) {
		t.Fatalf("%+v and %+v", *a, *b)
	}
}

func alike(t *rapid.T, a, b *Contrast) {
	if a == nil || b == nil {
		if a != b {
			t.Fatalf("%+v and %+v", a, b)
		}
		return
	}
	if a.Finding != b.Finding || !near(a.Before, b.Before) || !near(a.After, b.After) || a.Tasks != b.Tasks {
		t.Fatalf("%+v and %+v", *a, *b)
	}
}

func TestOrderOfDifferences(t *testing.T) {
	before := shares(10, 10, 10, 10, 0, 5, 5, 10, 9)
	after := shares(10, 9, 0, 4, 10, 3, 7, 10, 0)
	before.Tasks = append(before.Tasks, TaskOutline{ID: "gone", Trials: shares(2, 2).Tasks[0].Trials})
	after.Tasks = append(after.Tasks, TaskOutline{ID: "new", Trials: shares(2, 2).Tasks[0].Trials})
	before.Tasks = append(before.Tasks, TaskOutline{ID: "down", Trials: shares(1, 1).Tasks[0].Trials}, TaskOutline{ID: "up", Trials: shares(1, 0).Tasks[0].Trials})
	after.Tasks = append(after.Tasks, TaskOutline{ID: "down", Trials: shares(2, 0).Tasks[0].Trials}, TaskOutline{ID: "up", Trials: shares(2, 2).Tasks[0].Trials})
	var got []string
	for _, d := range Compare([]Entry{before, after}).Differences {
		got = append(got, fmt.Sprint(d.Change, " ", d.Task))
	}
	want := []string{
		"regressed t1", "regressed t7", "regressed t2", "now failing down", "missing gone",
		"flaky t4", "flaky t5", "flaky t0", "fixed t3", "now passing up", "added new",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnlike(t *testing.T) {
	a := Entry{
		Outline: Outline{EvalName: "demo", OutlineConfig: OutlineConfig{Isolated: true, TimeoutSec: 300}, Tasks: shares(3, 1).Tasks, Servers: []ServerOutline{{"web", []CatalogOutline{{"a"}, {"b"}}}, {"db", []CatalogOutline{{"c"}}}}},
		Made:    []Setting{{"eval file", "123"}, {"waza", "1"}, {"network", "per_task"}},
	}
	b := Entry{
		Outline: Outline{EvalName: "demo", OutlineConfig: OutlineConfig{TimeoutSec: 60, NoAttacks: true}, Tasks: shares(5, 1, 2).Tasks, Servers: []ServerOutline{{"web", []CatalogOutline{{"b"}, {"a"}}}, {"db", []CatalogOutline{{"d"}}}}},
		Made:    []Setting{{"eval file", "456"}, {"waza", "1"}},
	}
	want := []Unlike{
		{"isolated", "yes", "no"}, {"trials of a task", "3", "5"}, {"time limit", "5m0s", "1m0s"}, {"attacks left out", "no", "yes"},
		{"tools of db", "c", "d"}, {"eval file", "123", "456"},
	}
	if diff := cmp.Diff(want, Compare([]Entry{a, b}).Pairs[0].Unlike); diff != "" {
		t.Error(diff)
	}
	if got := Compare([]Entry{a, a}).Pairs[0].Unlike; got != nil {
		t.Errorf("of a run and itself: %v", got)
	}
}

// Foreign text of a run is shown as one line of text.
func TestUnlikeOfStrangers(t *testing.T) {
	a, b := shares(3, 1), shares(3, 1)
	a.Made, b.Made = []Setting{{"network\nrun 3: passed", "x\x1b[31m\u202e"}}, []Setting{{"network\nrun 3: passed", strings.Repeat("y", 1<<20)}}
	got := Compare([]Entry{a, b}).Pairs[0].Unlike[0]
	if got.What != "networkrun 3: passed" || got.Before != "x[31m" || len(got.After) > 4*maxName {
		t.Errorf("%.300q", got)
	}
}
