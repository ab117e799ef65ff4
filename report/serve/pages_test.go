package serve

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// A trial's page has as much of it as the report of a run that has no other trial.
func TestPageHasWhatReportHas(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "a")
	r := runtest.New(t, at, "shop")
	const calls, size = 80, 60 << 10
	r.Trial("buy", func(trial *runtest.Trial) {
		trial.Serve("stock", runtest.Tool{Name: "price"})
		for n := range calls {
			trial.Call("stock", "price", nil, strings.Repeat("x", size)+fmt.Sprintf("-end-of-%d.", n))
		}
	})
	r.End()
	var report bytes.Buffer
	if err := runner.WriteReport(&report, []string{at}); err != nil {
		t.Fatal(err)
	}
	page := open(t, dir).page("/runs/a/trial/buy/1")
	whole := 0
	for n := range calls {
		end := fmt.Sprintf("-end-of-%d.", n)
		if strings.Contains(page, end) != strings.Contains(report.String(), end) {
			t.Errorf("call %d is whole in one alone", n)
		}
		whole += min(1, strings.Count(page, end))
	}
	if whole < calls/2 {
		t.Errorf("%d of %d calls are whole", whole, calls)
	}
}
