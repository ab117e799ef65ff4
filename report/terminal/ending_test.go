package terminal

import (
	"fmt"
	"github.com/google/go-cmp/cmp"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// finished returns a trial with the given duration.
func finished(task string, number, seconds int, class evidence.Class, message string, verdicts ...evidence.Verdict) Trial {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Trial{
		Trial:    evidence.Trial{Task: task, Number: number, Started: began, Ended: began.Add(time.Duration(seconds) * time.Second)},
		Verdicts: evidence.Verdicts{Class: class, Message: message, Verdicts: verdicts},
	}
}

// What several attempts ended with is said once.
func TestAttemptsBefore(t *testing.T) {
	t.Parallel()
	r := finished("price", 1, 3, evidence.ClassInfra, "no engine")
	r.Verdicts.Reason = evidence.ReasonSandbox
	attempt := evidence.Trial{Class: evidence.ClassInfra, Reason: evidence.ReasonSandbox, Message: "no engine\nat all"}
	r.Earlier = []evidence.Trial{attempt, attempt}
	if got, want := attemptsBefore(r), "price/1 infra after 2 attempts that ended as infra: for the same reason"; got != want {
		t.Errorf("%q", got)
	}
	r.Verdicts.Class, r.Verdicts.Reason, r.Verdicts.Message = evidence.ClassPass, "", ""
	if got, want := attemptsBefore(r), "price/1 pass after 2 attempts that ended as infra: sandbox: no engine"; got != want {
		t.Errorf("%q", got)
	}
}

// Without a message, the outcome of a trial is shown once.
func TestEpilogueWithoutAWord(t *testing.T) {
	t.Parallel()
	done := []Trial{finished("t", 1, 1, evidence.ClassTimeout, "")}
	for _, atLength := range []bool{true, false} {
		lines := Ending{Run: view.Run{Dir: "run"}, Trials: done}.failures(atLength)
		if diff := cmp.Diff([]string{"t/1 timeout", "  waza show run t 1"}, lines); diff != "" {
			t.Error(diff)
		}
	}
}

// Trials of a task that ended alike are told once.
func TestEpilogueGroups(t *testing.T) {
	t.Parallel()
	why := func(text string) evidence.Verdict {
		return evidence.Verdict{Name: "g", Result: evidence.VerdictFail, Feedback: text}
	}
	done := []Trial{
		finished("t", 1, 1, evidence.ClassFail, "failed: g", why("No call.")), finished("t", 2, 1, evidence.ClassPass, ""),
		finished("t", 3, 1, evidence.ClassFail, "failed: g", why("No word.")), finished("t", 4, 1, evidence.ClassFail, "failed: g", why("No call.")),
		finished("u", 1, 1, evidence.ClassFail, "failed: g", why("No call.")),
	}
	lines := Ending{Run: view.Run{Dir: "run"}, Trials: done}.failures(true)
	want := []string{
		"t/1,4 fail", "  g: No call.", "  waza show run t 1",
		"t/3 fail", "  g: No word.", "  waza show run t 3",
		"u/1 fail", "  g: No call.", "  waza show run u 1",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// TestEpilogueIsBounded has a hundred trials fail at length.
func TestEpilogueIsBounded(t *testing.T) {
	t.Parallel()
	var done []Trial
	for number := range 100 {
		done = append(done, finished("t", number+1, 1, evidence.ClassFail, fmt.Sprint(number, strings.Repeat("why\n", 1000)),
			evidence.Verdict{Name: "g", Result: evidence.VerdictFail, Feedback: strings.Repeat("f", 1<<20)}))
	}
	e := Ending{Run: view.Run{Dir: "run"}, Trials: done, Style: Style{coloured: true}}
	lines := e.failures(true)
	if text := strings.Join(lines, "\n"); len(lines) != 3*maxFailures+1 || len(text) > maxFailures*4*shownBytes {
		t.Errorf("%d lines, %d bytes", len(lines), len(text))
	}
	if want := fmt.Sprintf("and %d more that did not pass; waza show run lists all trials", 100-maxFailures); lines[len(lines)-1] != want {
		t.Errorf("%q", lines[len(lines)-1])
	}
	if len(e.slowest()) != 1 || len(Ending{Trials: done[:3]}.slowest()) != 0 {
		t.Error("slowest")
	}
}
