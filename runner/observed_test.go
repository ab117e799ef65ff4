package runner

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// What cannot be watched is on record as such, of servers alone.
func TestActivityIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runOne(t, testBackend(), testTrial(1), options(t))
		wantOutcome(t, r, evidence.ClassPass, "")
		got, err := r.Dir.Observed()
		if err != nil {
			t.Fatal(err)
		}
		want := []evidence.Observed{{Container: "stock", Seen: observe.Nothing("nobody watches")}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
