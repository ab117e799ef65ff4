package runner

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

func (u *updates) phases() (all []evidence.Phase) {
	for _, update := range u.all {
		if update.Call == nil {
			all = append(all, update.Phase)
		}
	}
	return all
}

// TestProgressOnRecord has a trial need two attempts, and a run that is resumed go on
// where the record ends.
func TestProgressOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := testBackend(), options(t)
		b.on["start stock"] = failsFirst(1)
		o.InfraRetries = 1
		o.Host.Secrets.Add("did-not-come")
		runOne(t, b, testTrial(1), o)
		runOne(t, testBackend(), testTrial(2), o)
		content, err := os.ReadFile(filepath.Join(o.Dir, evidence.ProgressFile))
		if err != nil {
			t.Fatal(err)
		}
		lines := evidence.ParseProgress(content)
		var got []evidence.Progress
		for _, line := range lines {
			line.Time = line.Time.Truncate(0)
			if line.Time.IsZero() {
				t.Errorf("no time: %+v", line)
			}
			if line.Message != "" && line.Class != evidence.ClassInfra {
				t.Errorf("%s: %s", line.Class, line.Message)
			}
			got = append(got, evidence.Progress{Task: line.Task, Number: line.Number, Attempt: line.Attempt, Phase: line.Phase, Class: line.Class, Reason: line.Reason})
		}
		of := func(number, attempt int, class evidence.Class, reason evidence.Reason, phases ...evidence.Phase) (all []evidence.Progress) {
			for i, phase := range phases {
				p := evidence.Progress{Task: "buy", Number: number, Attempt: attempt, Phase: phase}
				if i == len(phases)-1 {
					p.Class, p.Reason = class, reason
				}
				all = append(all, p)
			}
			return all
		}
		want := of(1, 1, evidence.ClassInfra, evidence.ReasonServer, evidence.PhaseStart, evidence.PhaseProbe, evidence.PhaseAgain)
		want = append(want, of(1, 2, evidence.ClassPass, "", evidence.PhaseStart, evidence.PhaseProbe, evidence.PhaseAgent, evidence.PhaseCollect, evidence.PhaseDone)...)
		want = append(want, of(2, 1, evidence.ClassPass, "", evidence.PhaseStart, evidence.PhaseProbe, evidence.PhaseAgent, evidence.PhaseCollect, evidence.PhaseDone)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := (Record{}).WriteDigests(o.Dir); err != nil {
			t.Fatal(err)
		}
		if sealed, err := ReadRecord(o.Dir); err != nil || sealed.Files[evidence.ProgressFile] == "" {
			t.Errorf("sealed %v, %v", sealed.Files, err)
		}
	})
}

// TestProgressThatCannotBeKept has the record of phases fail: it is told once, and the
// trials are as they would be.
func TestProgressThatCannotBeKept(t *testing.T) {
	o := options(t)
	if err := os.Mkdir(filepath.Join(o.Dir, evidence.ProgressFile), 0o755); err != nil {
		t.Fatal(err)
	}
	var reported []string
	o.Host.Warn = func(err error) { reported = append(reported, err.Error()) }
	results, err := runTrials(t, t.Context(), testBackend(), []*plan.Trial{testTrial(1), testTrial(2)}, o)
	if err != nil || len(results) != 2 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		wantOutcome(t, r, evidence.ClassPass, "")
	}
	if len(reported) != 1 || !strings.Contains(reported[0], evidence.ProgressFile) {
		t.Errorf("told %q", reported)
	}
}

func TestProgressThatFailsLater(t *testing.T) {
	t.Parallel()
	o := options(t)
	var reported []string
	o.Host.Warn = func(err error) { reported = append(reported, err.Error()) }
	l := openProgress(o)
	l.add(Update{Task: "buy", Number: 1, Attempt: 1, Phase: evidence.PhaseStart})
	if err := l.log.Close(); err != nil || len(reported) > 0 {
		t.Fatalf("%v, %q", err, reported)
	}
	l.add(Update{Task: "buy", Number: 1, Attempt: 1, Phase: evidence.PhaseProbe})
	l.add(Update{Task: "buy", Number: 1, Attempt: 1, Phase: evidence.PhaseAgent})
	l.close()
	if len(reported) != 1 {
		t.Errorf("told %q", reported)
	}
}

// TestCallsAreFollowed has an agent call tools, one after another.
func TestCallsAreFollowed(t *testing.T) {
	b, o, seen := testBackend(), options(t), &updates{}
	b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
		for range 3 {
			if _, err := callStock(p.container, "stock"); err != nil {
				t.Error(err)
			}
		}
		io.WriteString(p.out, "4.20")
		return 0
	}}
	o.Progress = seen.add
	wantOutcome(t, runOne(t, b, testTrial(1), o), evidence.ClassPass, "")
	asked, calls := 0, trial.Calling{}
	for _, u := range seen.all {
		if u.Call == nil {
			continue
		}
		if calls = *u.Call; calls.Server != "stock" || calls.Tool != "price" || u.Task != "buy" || u.Number != 1 || u.Attempt != 1 {
			t.Errorf("%+v of %+v", calls, u)
		}
		asked = max(asked, calls.Open)
	}
	if calls.Calls != 3 || calls.Open != 0 || asked == 0 {
		t.Errorf("at the end %+v, and at most %d open", calls, asked)
	}
}
