package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/ansi"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// finished is a trial that took so many seconds.
func finished(task string, number, seconds int, class evidence.Class, message string, verdicts ...evidence.Verdict) runner.Result {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return runner.Result{
		Trial:    evidence.Trial{Task: task, Number: number, Started: began, Ended: began.Add(time.Duration(seconds) * time.Second)},
		Verdicts: evidence.Verdicts{Class: class, Message: message, Verdicts: verdicts},
	}
}

func TestEpilogue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	record := runner.Record{Isolated: true, Trials: 5, Tasks: []runner.TaskRecord{{ID: "price"}}}
	done := []runner.Result{
		finished("price", 1, 3, evidence.ClassPass, ""),
		finished("price", 2, 31, evidence.ClassFail, "failed: used", evidence.Verdict{Name: "fine", Result: evidence.VerdictPass},
			evidence.Verdict{Name: "used", Result: evidence.VerdictFail, Feedback: "No call of find_item.\n" + evilText}),
		finished("price", 3, 4, evidence.ClassPass, ""),
		finished("price", 4, 5, evidence.ClassInfra, "no engine"),
	}
	end := func(l loudness) string {
		s, out, _ := testState()
		j := &job{state: s, options: runOptions{loudness: l}}
		j.epilogue(dir, record, results.Results{}, done)
		checkPrintable(t, "epilogue", out.String())
		return strings.ReplaceAll(out.String(), dir, "RUN")
	}
	failures := func(why string) string {
		return "price/2 fail: " + why + "  waza show 'RUN' price 2\nprice/4 infra: no engine\n  waza show 'RUN' price 4\n"
	}
	rest := "interrupted: 1 of 5 trials have no outcome\nrun directory: RUN\nto complete it: waza run --resume 'RUN'\n"
	record.Interrupted = true
	got := end(normal)
	feedback := got[strings.Index(got, "  used: "):strings.Index(got, "  waza show")]
	if !strings.HasPrefix(feedback, "  used: No call of find_item.\n    ") {
		t.Errorf("feedback %q", feedback)
	}
	if diff := cmp.Diff("\n"+failures("failed: used\n"+feedback)+"slowest: price/2 31.0s, price/4 5.0s, price/3 4.0s\n"+rest, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(dir, runner.ReportFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := failures("used: No call of find_item.\n") + "2 of 5 trials passed\n" + strings.Replace(rest, "run directory", "report: RUN/report.html\nrun directory", 1)
	if diff := cmp.Diff(want, end(quiet)); diff != "" {
		t.Error(diff)
	}
}

// What several attempts ended with is said once.
func TestAttemptsBefore(t *testing.T) {
	t.Parallel()
	r := finished("price", 1, 3, evidence.ClassInfra, "no engine")
	r.Verdicts.Reason = evidence.ReasonSandbox
	attempt := evidence.Trial{Class: evidence.ClassInfra, Reason: evidence.ReasonSandbox, Message: "no engine\nat all"}
	r.Earlier = []evidence.Trial{attempt, attempt}
	if got, want := attemptsBefore(r), "price/1 infra after 2 attempt(s) that ended as infra: for the same reason"; got != want {
		t.Errorf("%q", got)
	}
	r.Verdicts.Class, r.Verdicts.Reason, r.Verdicts.Message = evidence.ClassPass, "", ""
	if got, want := attemptsBefore(r), "price/1 pass after 2 attempt(s) that ended as infra: sandbox: no engine"; got != want {
		t.Errorf("%q", got)
	}
}

// Where nobody says why, how a trial ended is said once.
func TestEpilogueWithoutAWord(t *testing.T) {
	t.Parallel()
	done := []runner.Result{finished("t", 1, 1, evidence.ClassTimeout, "")}
	for _, atLength := range []bool{true, false} {
		lines := ending{dir: "run", done: done}.failures(atLength)
		if diff := cmp.Diff([]string{"t/1 timeout", "  waza show run t 1"}, lines); diff != "" {
			t.Error(diff)
		}
	}
}

// An agent that ended by itself has said why, where it said anything.
func TestWhyAgentEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, evidence.StderrFile), []byte("at work\nno such tool\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[evidence.Reason]string{
		evidence.ReasonExitCode: "exited: no such tool\nnote", evidence.ReasonSignal: "exited: no such tool\nnote", evidence.ReasonTimeLimit: "exited\nnote",
	} {
		r := finished("price", 1, 3, evidence.ClassAgentError, "exited\nnote")
		r.Dir, r.Verdicts.Reason = evidence.Dir(dir), reason
		if got := withLastWords(r).Message; got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, evidence.StderrFile), []byte(strings.ReplaceAll(evilText, "\n", " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := finished("price", 1, 3, evidence.ClassAgentError, "exited")
	hostile.Dir, hostile.Verdicts.Reason = evidence.Dir(dir), evidence.ReasonSignal
	s, out, _ := testState()
	s.printLines(ending{done: []runner.Result{hostile}}.failures(true))
	if checkPrintable(t, "last words", out.String()); !strings.Contains(out.String(), "price/1 agent_error (signal): exited: ") {
		t.Errorf("%q", out.String())
	}
}

// TestEpilogueIsBounded has a hundred trials fail at length.
func TestEpilogueIsBounded(t *testing.T) {
	t.Parallel()
	var done []runner.Result
	for number := range 100 {
		done = append(done, finished("t", number+1, 1, evidence.ClassFail, strings.Repeat("why\n", 1000),
			evidence.Verdict{Name: "g", Result: evidence.VerdictFail, Feedback: strings.Repeat("f", 1<<20)}))
	}
	e := ending{dir: "run", done: done, style: ansi.Coloured()}
	lines := e.failures(true)
	if text := strings.Join(lines, "\n"); len(lines) != 3*maxFailures+1 || len(text) > maxFailures*4*shownBytes {
		t.Errorf("%d lines, %d bytes", len(lines), len(text))
	}
	if want := fmt.Sprintf("and %d more that did not pass; waza show run lists all trials", 100-maxFailures); lines[len(lines)-1] != want {
		t.Errorf("%q", lines[len(lines)-1])
	}
	if len(e.slowest()) != 1 || len(ending{done: done[:3]}.slowest()) != 0 {
		t.Error("slowest")
	}
}
