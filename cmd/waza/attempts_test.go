package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// TestMaxAttempts checks that a failed trial is retried up to config.max_attempts: the last
// attempt decides, all are kept, and reliability is computed from the first.
func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  max_attempts: 3
  executor: command
  agent:
    command: sh
    prompt: argument
    args: ["-c", "echo x >> $TRIES/$1; echo tried $(wc -l < $TRIES/$1) times; if [ $1 = breaks ]; then exit 1; fi", "sh", "{{prompt}}"]
tasks: [tasks/*.yaml]
graders: [{type: text, name: twice, config: {contains: ["tried 2 times"]}}]
-- tasks/1.yaml --
{id: second, inputs: {prompt: second}}
-- tasks/2.yaml --
{id: never, inputs: {prompt: never}, graders: [{type: text, name: no, config: {contains: [other]}}]}
-- tasks/3.yaml --
{id: breaks, inputs: {prompt: breaks}}
-- tries/none --
`)
	p.env = append(p.env, "TRIES="+p.path("tries"))
	c := p.startLocal()
	c.wait(exitFailed)
	if said := "second/1 pass after 1 attempt that ended as fail: graders: failed: twice\n"; !strings.Contains(c.stdout.String(), said) {
		t.Errorf("it does not say %q:\n%s", said, c.stdout.String())
	}
	got := p.results()
	for i, want := range []struct {
		task     string
		outcome  evidence.Class
		attempts int
		passRate float64
		atOne    float64 // pass@1
	}{
		{"second", evidence.ClassPass, 2, 1, 0},
		{"never", evidence.ClassFail, 3, 0, 0},
		{"breaks", evidence.ClassAgentError, 1, 0, 0},
	} {
		task := got.Tasks[i]
		run := task.Runs[0]
		if task.TestID != want.task || run.Outcome != want.outcome || run.Attempts != want.attempts || len(run.Earlier) != want.attempts-1 {
			t.Errorf("%s is %s after %d attempts, earlier %+v; want %+v", task.TestID, run.Outcome, run.Attempts, run.Earlier, want)
		}
		if task.Stats.PassRate != want.passRate || task.Stats.PassAtK[0] != want.atOne || task.Stats.Consistency != results.Never {
			t.Errorf("%s: %+v", task.TestID, *task.Stats)
		}
		for _, earlier := range run.Earlier {
			if earlier.Outcome != evidence.ClassFail || earlier.Message == "" {
				t.Errorf("%s: an earlier attempt is %+v", task.TestID, earlier)
			}
		}
	}
	if rate := got.Summary.Statistics.PassRate.Mean; rate != 0 {
		t.Errorf("trial_pass_rate is %v, though no first attempt passed", rate)
	}

	// A run that was interrupted between two attempts goes on with the next one.
	record := p.path("run", "trials", "never", "1")
	if err := os.RemoveAll(filepath.Join(record, "attempts", "2")); err != nil {
		t.Fatal(err)
	}
	resume := p.start("run", "--resume", "run")
	resume.wait(exitFailed)
	if run := p.results().Tasks[1].Runs[0]; run.Outcome != evidence.ClassFail || len(run.Earlier) != 2 {
		t.Errorf("after it was resumed: %+v\n%s", run.Earlier, resume.stderr.String())
	}
}
