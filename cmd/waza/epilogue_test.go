package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// finished returns a trial with the given duration in seconds.
func finished(number, seconds int, class evidence.Class, message string, verdicts ...evidence.Verdict) results.RunResult {
	r := results.Graded(evidence.Verdicts{Class: class, Message: message, Verdicts: verdicts})
	r.RunNumber, r.Took = number, time.Duration(seconds)*time.Second
	return r
}

func TestEpilogue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	record := runner.Record{Choices: runner.Choices{Isolated: true, Trials: 5}, Tasks: []runner.TaskRecord{{ID: "price"}}}
	task := results.Task{TestID: "price", Runs: []results.RunResult{
		finished(1, 3, evidence.ClassPass, ""),
		finished(2, 31, evidence.ClassFail, "failed: used", evidence.Verdict{Name: "fine", Result: evidence.VerdictPass},
			evidence.Verdict{Name: "used", Result: evidence.VerdictFail, Feedback: "No call of find_item.\n" + evilText}),
		finished(3, 4, evidence.ClassPass, ""),
		finished(4, 5, evidence.ClassInfra, "no engine"),
	}}
	end := func(l verbosity) string {
		s, out, _ := testState()
		ended := runner.Outcome{Dir: dir, Record: record, Results: results.Results{Tasks: []results.Task{task}}}
		s.epilogue(ended.View(), l)
		checkPrintable(t, "epilogue", out.String())
		return strings.ReplaceAll(out.String(), dir, "RUN")
	}
	failures := func(why string) string {
		return "price/2 fail" + why + "  waza show 'RUN' price 2\nprice/4 incomplete: no engine\n  waza show 'RUN' price 4\n"
	}
	rest := "run directory: RUN\nto complete it: waza run --resume 'RUN'\nINCOMPLETE (interrupted): 1 of 5 trials has no outcome; 1 of 4 trials could not be completed; 1 of 3 trials did not pass (1 flaky)\n"
	record.Interrupted = true
	got := end(normal)
	feedback := got[strings.Index(got, "  used: "):strings.Index(got, "  waza show")]
	if !strings.HasPrefix(feedback, "  used: No call of find_item.\n    ") {
		t.Errorf("feedback %q", feedback)
	}
	if diff := cmp.Diff("\n"+failures("\n"+feedback)+"slowest: price/2 31.0s, price/4 5.0s, price/3 4.0s\n"+rest, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(dir, runner.ReportFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := failures(": used: No call of find_item.\n") + strings.Replace(rest, "run directory", "report: RUN/report.html\nrun directory", 1)
	if diff := cmp.Diff(want, end(quiet)); diff != "" {
		t.Error(diff)
	}
}

// TestWhyAgentEnded checks that what an agent printed before it exited with an error is shown.
func TestWhyAgentEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, evidence.StderrFile), []byte("at work\nno such tool\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[evidence.Reason]string{
		evidence.ReasonExitCode: "exited: at work … no such tool\nnote", evidence.ReasonSignal: "exited: at work … no such tool\nnote", evidence.ReasonTimeLimit: "exited\nnote",
	} {
		v := evidence.Verdicts{Class: evidence.ClassAgentError, Reason: reason, Message: "exited\nnote"}
		if got := evidence.Dir(dir).Explained(evidence.Trial{}, v).Message; got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, evidence.ServersDir), 0o700), os.WriteFile(filepath.Join(dir, evidence.ServersDir, "s.stderr"), []byte("up\nKeyError\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{"it crashed": "it crashed: up … KeyError", "it crashed: KeyError": "it crashed: KeyError"} {
		v := evidence.Verdicts{Class: evidence.ClassServerError, Reason: evidence.ReasonServer, Message: said}
		if got := evidence.Dir(dir).Explained(evidence.Trial{FailedServer: "s"}, v).Message; got != want {
			t.Errorf("of a server: %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, evidence.StderrFile), []byte(strings.ReplaceAll(evilText, "\n", " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := results.Graded(evidence.Dir(dir).Explained(evidence.Trial{}, evidence.Verdicts{Class: evidence.ClassAgentError, Reason: evidence.ReasonSignal, Message: "exited"}))
	hostile.RunNumber = 1
	s, out, _ := testState()
	ended := runner.Outcome{Results: results.Results{Tasks: []results.Task{{TestID: "price", Runs: []results.RunResult{hostile}}}}}
	s.epilogue(ended.View(), normal)
	if checkPrintable(t, "last words", out.String()); !strings.Contains(out.String(), "price/1 agent crashed: exited: ") {
		t.Errorf("%q", out.String())
	}
}

// TestOutcomeWithoutTrials checks that a run that was interrupted before its first trial prints no
// table, but how to resume it.
func TestOutcomeWithoutTrials(t *testing.T) {
	t.Parallel()
	s, stdout, _ := testState()
	record := runner.Record{Choices: runner.Choices{Isolated: true, Trials: 2}, Tasks: []runner.TaskRecord{{ID: "price"}}, Interrupted: true}
	out := runner.Outcome{Dir: t.TempDir(), Record: record, Results: results.Results{Tasks: []results.Task{{TestID: "price"}}}}
	if err := (runOutput{state: s, format: formatDefault}).printOutcome(nil, out, nil); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(stdout.String(), out.Dir, "RUN")
	if want := "\nrun directory: RUN\nto complete it: waza run --resume RUN\nINCOMPLETE (interrupted): 2 trials have no outcome\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
