package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// finished returns a trial of one second.
func finished(number int, class evidence.Class, message string, verdicts ...evidence.Verdict) results.RunResult {
	r := results.Graded(evidence.Verdicts{Class: class, Message: message, Verdicts: verdicts})
	r.RunNumber, r.Took = number, time.Second
	return r
}

// endingOf returns the ending of a run of tasks.
func endingOf(tasks ...results.Task) Ending {
	return Ending{Run: view.Run{Dir: "run", Results: results.Results{Tasks: tasks}}}
}

// Without a message, the outcome of a trial is shown once.
func TestEpilogueWithoutAWord(t *testing.T) {
	t.Parallel()
	e := endingOf(results.Task{TestID: "t", Runs: []results.RunResult{finished(1, evidence.ClassTimeout, "")}})
	for _, atLength := range []bool{true, false} {
		lines := e.failures(view.Tasks(e.Run.Results), atLength)
		if diff := cmp.Diff([]string{"t/1 timeout", "  waza show run t 1"}, lines); diff != "" {
			t.Error(diff)
		}
	}
}

// On a terminal, sentences are broken between words, and commands and paths are not.
func TestEpilogueFits(t *testing.T) {
	t.Parallel()
	e := endingOf(results.Task{TestID: "t", Runs: []results.RunResult{finished(1, evidence.ClassTimeout, strings.Repeat("word ", 20))}})
	e.Run.Dir, e.Width = "a/directory/with/a/long/name/that/does/not/fit", 40
	var out strings.Builder
	if err := e.Write(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 41 && !strings.Contains(line, e.Run.Dir) {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(out.String(), "\n  waza show "+e.Run.Dir+" t 1\n") || !strings.Contains(out.String(), "word word\n    word") {
		t.Error(out.String())
	}
}

// Trials of a task that ended alike are told once.
func TestEpilogueGroups(t *testing.T) {
	t.Parallel()
	why := func(text string) evidence.Verdict {
		return evidence.Verdict{Name: "g", Result: evidence.VerdictFail, Feedback: text}
	}
	e := endingOf(
		results.Task{TestID: "t", Runs: []results.RunResult{
			finished(1, evidence.ClassFail, "failed: g", why("No call.")), finished(2, evidence.ClassPass, ""),
			finished(3, evidence.ClassFail, "failed: g", why("No word.")), finished(4, evidence.ClassFail, "failed: g", why("No call.")),
		}},
		results.Task{TestID: "u", Runs: []results.RunResult{finished(1, evidence.ClassFail, "failed: g", why("No call."))}},
	)
	lines := e.failures(view.Tasks(e.Run.Results), true)
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
	var done []results.RunResult
	for number := range 100 {
		done = append(done, finished(number+1, evidence.ClassFail, fmt.Sprint(number, strings.Repeat("why\n", 1000)),
			evidence.Verdict{Name: "g", Result: evidence.VerdictFail, Feedback: strings.Repeat("f", 1<<20)}))
	}
	e := endingOf(results.Task{TestID: "t", Runs: done})
	e.Style = Style{coloured: true}
	lines := e.failures(view.Tasks(e.Run.Results), true)
	if text := strings.Join(lines, "\n"); len(lines) != 3*maxFailures+1 || len(text) > maxFailures*4*shownBytes {
		t.Errorf("%d lines, %d bytes", len(lines), len(text))
	}
	if want := fmt.Sprintf("and %d more that did not pass; waza show run lists all trials", 100-maxFailures); lines[len(lines)-1] != want {
		t.Errorf("%q", lines[len(lines)-1])
	}
	if len(slowest(view.Tasks(e.Run.Results))) != 1 || len(slowest(view.Tasks(endingOf(results.Task{Runs: done[:3]}).Run.Results))) != 0 {
		t.Error("slowest")
	}
}

// That a run was not isolated stands apart from where its results are.
func TestPlacesWithoutIsolation(t *testing.T) {
	t.Parallel()
	e := endingOf()
	if lines := e.places(); len(lines) != 3 || !strings.HasPrefix(lines[0], "Not isolated: ") || lines[1] != "" || lines[2] != "run directory: run" {
		t.Errorf("%q", lines)
	}
}
