package trial

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// onlooker is a sandbox that watches.
type onlooker struct {
	sandbox.Contained
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
		if diff := cmp.Diff(test.want, activityOf(t.Context(), test.sandbox, "web")); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
