package runner

import (
	"runtime"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/runner/plan"
)

// A result holds nothing of what its trial ran with: a pointer into the agent's process
// held the trial's recorder and its buffers, some 70 KiB, until the run ended.
func TestMemoryOfManyResults(t *testing.T) {
	heavytest.Mark(t)
	const n, most = 100, 16 << 10
	runMany(t, plansOf(n)) // makes what is made once, for as many at a time
	trials := plansOf(n)
	before := heldNow()
	for range 5 { // what ran before may still be ending
		time.Sleep(20 * time.Millisecond)
		before = min(before, heldNow())
	}
	results := runMany(t, trials)
	each := (heldNow() - before) / n
	for range 300 { // goroutines of the last trials may still be ending
		if each <= most {
			break
		}
		time.Sleep(100 * time.Millisecond)
		each = (heldNow() - before) / n
	}
	runtime.KeepAlive(results)
	runtime.KeepAlive(trials)
	t.Logf("a result holds %d bytes", each)
	if each > most {
		t.Errorf("a result holds %d bytes, more than %d", each, most)
	}
}

func plansOf(n int) (trials []*plan.Trial) {
	for number := range n {
		trials = append(trials, testTrial(number+1))
	}
	return trials
}

func runMany(t *testing.T, trials []*plan.Trial) []evidence.Dir {
	t.Helper()
	results, err := RunTrials(t.Context(), testBackend(), trials, options(t))
	if err != nil || len(results) != len(trials) {
		t.Fatalf("got %d results and %v", len(results), err)
	}
	return results
}

// heldNow is how many bytes of the heap are in use.
func heldNow() int64 {
	runtime.GC()
	runtime.GC() // pools live through one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
