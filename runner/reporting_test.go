package runner

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// reportedRun is a run directory with its reports.
func reportedRun(t *testing.T) (dir string, record Record, summary results.Results) {
	t.Helper()
	dir, record = aRun(t)
	summary, err := WriteResults(dir, record)
	if err := errors.Join(err, record.Report(dir, summary), record.WriteDigests(dir)); err != nil {
		t.Fatal(err)
	}
	if record, err = ReadRecord(dir); err != nil {
		t.Fatal(err)
	}
	return dir, record, summary
}

func page(t *testing.T, dirs ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteReport(&out, dirs); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Writing reports again does not change the evidence and, if nothing else changed, gives the
// same bytes.
func TestReportsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record, summary := reportedRun(t)
		before := snapshot(t, dir)
		if err := record.Report(dir, summary); err != nil {
			t.Fatal(err)
		}
		for name, content := range snapshot(t, dir) {
			if before[name] != content {
				t.Errorf("%s is another", name)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, ReportFile), []byte("another"), 0o644); err != nil {
			t.Fatal(err)
		}
		if changed, err := record.Files.Changed(dir); err != nil || len(changed) > 0 {
			t.Errorf("%q, %v: who writes a report changes no evidence", changed, err)
		}
	})
}

// Where one report cannot be written, the other is, and what was there stays.
func TestAReportThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record, summary := reportedRun(t)
		if err := os.Remove(filepath.Join(dir, JUnitFile)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "trials", "buy", "2", evidence.TrialFile)); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		err := record.Report(dir, summary)
		if err == nil || !strings.Contains(err.Error(), "report.html is not written: trial buy/2: ") {
			t.Fatalf("%v", err)
		}
		after := snapshot(t, dir)
		if after[filepath.Join(dir, JUnitFile)] == "" {
			t.Error("junit.xml is not there")
		}
		if after[filepath.Join(dir, ReportFile)] != before[filepath.Join(dir, ReportFile)] || len(after) != len(before)+1 {
			t.Error("the report that was there is another, or half of one is left")
		}
	})
}

// A run that never came to its end is reported as one.
func TestReportOfARunThatCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		record.Ended = time.Time{}
		if err := record.Write(dir); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		if text := page(t, dir); !strings.Contains(text, "The run broke off: 1 of 4 trials has no outcome.") {
			t.Errorf("the report does not say so:\n%.3000s", text)
		}
		if len(snapshot(t, dir)) != len(before) {
			t.Error("a report wrote to the run directory")
		}
		record.Ended, record.Interrupted = time.Now(), true
		if err := record.Write(dir); err != nil {
			t.Fatal(err)
		}
		if text := page(t, dir); !strings.Contains(text, "The run was interrupted: 1 of 4") {
			t.Error("the report does not say that the run was interrupted")
		}
	})
}

// Several runs are in one file, each page and each element once.
func TestReportOfSeveralRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _, _ := reportedRun(t)
		text := page(t, dir, dir)
		for _, id := range []string{"compare", "run/1/overview", "run/2/overview", "run/1/trial/buy/1", "run/2/trial/buy/3"} {
			if n := strings.Count(text, `id="`+id+`"`); n != 1 {
				t.Errorf("the page %s is there %d times", id, n)
			}
		}
		if err := WriteReport(&bytes.Buffer{}, nil); err == nil {
			t.Error("there is a report of no run")
		}
	})
}

// A run that somebody holds, and that has not ended, is told of as at work.
func TestReportOfARunAtWork(t *testing.T) {
	dir, record := aRun(t)
	record.Ended = time.Time{}
	err := record.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	held, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if text := page(t, dir); !strings.Contains(text, "The run is at work: ") || strings.Contains(text, "broke off") {
		t.Error("the run is not told of as at work")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if text := page(t, dir); !strings.Contains(text, "The run broke off: ") {
		t.Error("the run is told of as at work when it is not")
	}
}

// From four runs on, what stands at the top of each page is the comparison and the runs.
func TestNavOfSeveralRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _, _ := reportedRun(t)
		for runs, want := range map[int]bool{3: true, 4: false} {
			text := page(t, slices.Repeat([]string{dir}, runs)...)
			if got := strings.Contains(text, ">Servers 1</a>"); got != want || !strings.Contains(text, ">Run 3</a>") {
				t.Errorf("of %d runs the servers are at the top: %t", runs, got)
			}
		}
	})
}
