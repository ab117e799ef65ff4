package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// onlooker is a sandbox that watches.
type onlooker struct {
	sandbox.Sandbox
	seen observe.Seen
	err  error
}

func (o onlooker) Observe(context.Context, string) (observe.Seen, error) { return o.seen, o.err }

func TestObserve(t *testing.T) {
	seen := observe.Seen{Programs: []observe.Program{{Path: "/bin/sh", Count: 1}}}
	for name, test := range map[string]struct {
		sandbox sandbox.Sandbox
		want    observe.Seen
	}{
		"watched":     {onlooker{seen: seen}, seen},
		"gone":        {onlooker{err: errors.New("container went away: EOF")}, observe.Nothing("container went away: EOF")},
		"not watched": {struct{ sandbox.Sandbox }{}, observe.Nothing("without --isolate it is not watched")},
	} {
		if diff := cmp.Diff(test.want, Observe(t.Context(), test.sandbox, "web")); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// What cannot be watched is on record as such, of servers alone.
func TestConductIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runOne(t, testBackend(), testTrial(1), options(t))
		wantOutcome(t, r, evidence.ClassPass, "")
		got, err := r.Dir.Observed()
		if err != nil {
			t.Fatal(err)
		}
		want := []evidence.Observed{{Box: "stock", Seen: observe.Nothing("without --isolate it is not watched")}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
