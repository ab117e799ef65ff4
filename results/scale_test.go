package results

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
)

const (
	manyTrials = 1000
	manyCalls  = 100
)

// busy is a trial with many calls, with results of 2 KiB each.
func busy(number int) Trial {
	trial := graded("a", number, evidence.ClassPass, 1, 1)
	result, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(bytes.Repeat([]byte("x"), 2<<10))}}})
	for i := range manyCalls {
		trial.Calls = append(trial.Calls, evidence.Call{
			Seq: i + 1, Server: "inventory", Tool: "get", ID: json.RawMessage("1"), Arguments: json.RawMessage(`{"sku":"BRG-6204"}`), Result: evidence.NewResult(result),
			Outcome: evidence.OutcomeOK, Valid: new(true), Start: began, End: began.Add(time.Duration(i) * time.Millisecond),
		})
	}
	return trial
}

func buildMany(t testing.TB) Results {
	b := NewBuilder(Run{Results: Results{Config: Config{RunsPerTest: manyTrials}, Tasks: []Task{{TestID: "a"}}}})
	for number := range manyTrials {
		if err := b.Add(busy(number + 1)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results()
}

func writeMany(t testing.TB, r Results) {
	if err := r.Write(io.Discard, func(_ string, number int) (Trial, error) { return busy(number), nil }); err != nil {
		t.Fatal(err)
	}
}

// The memory for 1,000 trials of 100 calls is a small part of the 200 MB that these
// returned.
func TestMemoryOfManyTrials(t *testing.T) {
	heavytest.Mark(t)
	held := func() int64 {
		runtime.GC()
		runtime.GC() // pools of other tests live through one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	r := buildMany(t)
	kept := held() - before
	t.Logf("%d trials of %d calls: %.1f MiB kept", manyTrials, manyCalls, float64(kept)/(1<<20))
	if most := int64(12 << 20); kept > most {
		t.Errorf("%d MiB are kept, more than %d", kept>>20, most>>20)
	}
	if card := r.Servers[0]; card.Calls != manyTrials*manyCalls || *card.P95DurationMS != 94 {
		t.Errorf("%+v", card)
	}
}

func BenchmarkManyTrials(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		writeMany(b, buildMany(b))
	}
}
