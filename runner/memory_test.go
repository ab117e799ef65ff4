package runner

import (
	"runtime"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/runner/plan"
)

// A result holds nothing of what its trial ran with: a pointer into the agent's process
// held the trial's recorder and its buffers, some 70 KiB, until the run ended.
func TestMemoryOfManyResults(t *testing.T) {
	heavytest.Mark(t)
	heldByResults(t, 1) // has what is made once
	few, many := heldByResults(t, 20), heldByResults(t, 100)
	each := (many - few) / 80
	t.Logf("a result holds %d bytes", each)
	if most := int64(16 << 10); each > most {
		t.Errorf("a result holds %d bytes, more than %d", each, most)
	}
}

// heldByResults is how many bytes the results of so many trials hold, the plans aside.
func heldByResults(t *testing.T, n int) int64 {
	var trials []*plan.Trial
	for number := range n {
		trials = append(trials, testTrial(number+1))
	}
	before := heldNow()
	results, err := RunTrials(t.Context(), testBackend(), trials, options(t))
	if err != nil || len(results) != n {
		t.Fatalf("got %d results and %v", len(results), err)
	}
	held := heldNow() - before
	runtime.KeepAlive(results)
	runtime.KeepAlive(trials)
	return held
}

// heldNow is how many bytes of the heap are in use.
func heldNow() int64 {
	runtime.GC()
	runtime.GC() // pools live through one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
