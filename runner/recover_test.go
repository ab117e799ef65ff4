package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

func mustRecover(t *testing.T, dir string, r Record) Recovered {
	t.Helper()
	found, err := Recover(t.Context(), dir, r, trial.Consulting{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// kept is the numbers of the trials that are kept.
func (r Recovered) numbers() (numbers []int) {
	for n := 1; n <= 4; n++ {
		if _, ok := r.Kept[evidence.TrialID{Task: "buy", Number: n}]; ok {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func TestRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		at := func(elem ...string) string { return filepath.Join(append([]string{dir, "trials", "buy"}, elem...)...) }
		remove := func(path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		write := func(path, content string) {
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// 1 passed, 2 failed, 3 is infra and 4 was interrupted.
		if found := mustRecover(t, dir, record); !cmp.Equal(found.numbers(), []int{1, 2}) || found.Complete || len(found.Damaged) > 0 {
			t.Errorf("%v, %+v", found.numbers(), found)
		}
		// One that ended and was not graded is graded from its evidence.
		verdicts, err := os.ReadFile(at("1", evidence.VerdictsFile))
		if err != nil {
			t.Fatal(err)
		}
		remove(at("1", evidence.VerdictsFile))
		write(at("1", ".verdicts.json-123"), "half")
		if found := mustRecover(t, dir, record); !cmp.Equal(found.numbers(), []int{1, 2}) {
			t.Errorf("without verdicts: %v", found.numbers())
		}
		again, err := os.ReadFile(at("1", evidence.VerdictsFile))
		if diff := cmp.Diff(string(verdicts), string(again)); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		if _, err := os.Stat(at("1", ".verdicts.json-123")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what was half written is there: %v", err)
		}
		// Half a trial.json is none, and evidence that is not as it was sealed does not
		// count.
		sealed := record
		if err := sealed.WriteDigests(dir); err != nil {
			t.Fatal(err)
		}
		if sealed, err = ReadRecord(dir); err != nil {
			t.Fatal(err)
		}
		remove(at("1", evidence.StdoutFile))
		if said := mustRecover(t, dir, sealed).Damaged; len(said) != 1 || said[0] != "trial buy/1: trials/buy/1/agent.stdout is missing" {
			t.Errorf("of a file that is gone: %q", said)
		}
		write(at("1", evidence.StdoutFile), "what it never said")
		whole, err := os.ReadFile(at("2", evidence.TrialFile))
		if err != nil {
			t.Fatal(err)
		}
		write(at("2", evidence.TrialFile), string(whole[:len(whole)/2]))
		found := mustRecover(t, dir, sealed)
		if said := strings.Join(found.Damaged, "\n"); len(found.Kept) > 0 ||
			!strings.Contains(said, "trial buy/1: trials/buy/1/agent.stdout was changed after the run") || !strings.Contains(said, "trial buy/2: ") {
			t.Errorf("%v, %q", found.numbers(), said)
		}
		for n := 1; n <= 4; n++ {
			if err := found.SetAside(dir, evidence.TrialID{Task: "buy", Number: n}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"1/interrupted/1/trial.json", "2/interrupted/1/frames", "3/attempts/1/trial.json", "4/interrupted/1/events.jsonl"} {
			if _, err := os.Stat(at(filepath.FromSlash(name))); err != nil {
				t.Error(err)
			}
		}
		if dirs, err := Trials(dir); err != nil || len(dirs) > 0 {
			t.Errorf("%q count, %v", dirs, err)
		}
	})
}

// With fail_fast a run is complete once a trial did not pass.
func TestRecoverFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		record.FailFast = true
		if found := mustRecover(t, dir, record); !found.Complete {
			t.Errorf("%+v", found)
		}
	})
}

// A crash in the midst of setting aside splits nothing: the next one completes it.
func TestSetAsideTwice(t *testing.T) {
	names := []string{"events.jsonl", "frames", "servers", evidence.TrialFile}
	for moved := range len(names) {
		dir := evidence.Dir(t.TempDir())
		moving := filepath.Join(string(dir), evidence.AttemptsDir, movingDir)
		if err := os.MkdirAll(moving, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			to := string(dir)
			if i < moved {
				to = moving
			}
			if err := os.Mkdir(filepath.Join(to, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second finds nothing
			if err := setAside(dir, evidence.InterruptedDir); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(filepath.Join(string(dir), evidence.AttemptsDir, "1"))
		if left, _ := os.ReadDir(string(dir)); err != nil || len(entries) != len(names) || len(left) != 1 {
			t.Errorf("%d moved before: %q in attempts/1, %q left, %v", moved, entries, left, err)
		}
	}
}

func TestHoldDirectory(t *testing.T) {
	dir := t.TempDir()
	held, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(dir); !errors.Is(err, sandbox.ErrAlive) {
		t.Errorf("held twice: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
