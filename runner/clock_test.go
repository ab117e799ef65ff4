package runner

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/sandbox"
)

var recordedTime = regexp.MustCompile(`"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"\\]*)"`)

// TestSteppedClock has the machine's clock jump back and forth by hours each time it
// is asked, and by decades from the monotonic one. No trial notices, and every time
// in the evidence is the trial's own.
func TestSteppedClock(t *testing.T) {
	const work = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		b, o := testBackend(), options(t)
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			time.Sleep(work / 2)
			code := buyer("stock").run(p)
			time.Sleep(work / 2)
			return code
		}}
		start := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		steps := []time.Duration{0, 30 * time.Hour, -7 * time.Hour, 500 * time.Hour}
		asked := -1
		o.Wall = func() time.Time {
			asked++
			return start.Add(steps[asked%len(steps)])
		}
		for number := range 3 {
			result := runOne(t, b, testTrial(number+1), o)
			wantOutcome(t, result, "pass", "")
			trial := result.Trial
			if took := trial.AgentEnd.Sub(trial.AgentStart); took != work {
				t.Errorf("the agent took %s", took)
			}
			first := start.Add(steps[number])
			times := timesIn(t, string(result.Dir))
			if len(times) < 10 {
				t.Errorf("%d times in the evidence", len(times))
			}
			for _, at := range times {
				if at.Before(first) || at.After(first.Add(2*work)) {
					t.Errorf("%s is no time of a trial that began at %s", at, first)
				}
			}
		}
	})
}

// timesIn collects every time that files under dir hold.
func timesIn(t *testing.T, dir string) (times []time.Time) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range recordedTime.FindAllSubmatch(content, -1) {
			at, err := time.Parse(time.RFC3339Nano, string(found[1]))
			if err != nil {
				t.Error(err)
			}
			times = append(times, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}
