package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// watchPace is the least time between two things that a guest is heard to tell of
// its container's use.
const watchPace = 100 * time.Millisecond

// Usage is what the container used, and how full those of dirs are that are file
// systems of their own. It is the guest's word.
func (g *Guest) Usage(ctx context.Context, dirs []string) (observe.Usage, error) {
	r, err := g.call(ctx, request{Verb: "usage", Dirs: dirs})
	return usageOf(r, dirs, err)
}

// Watch is Usage, and has told called whenever the container has run into a limit
// since, until the session ends.
func (g *Guest) Watch(ctx context.Context, dirs []string, told func(observe.Usage)) (observe.Usage, error) {
	l, r, err := g.begin(ctx, request{Verb: "watch", Dirs: dirs})
	if err != nil {
		return observe.Usage{}, err
	}
	g.incoming.Go(func() {
		defer func() { _ = closeStream(l.stream) }()
		for {
			k, p, err := l.message()
			if err != nil || k != kindData {
				return
			}
			var used observe.Usage
			if json.Unmarshal(p, &used) == nil {
				told(used.Only(dirs))
			}
			select {
			case <-time.After(watchPace):
			case <-g.done:
				return
			}
		}
	})
	return usageOf(r, dirs, nil)
}

func usageOf(r reply, dirs []string, err error) (observe.Usage, error) {
	switch {
	case err != nil:
		return observe.Usage{}, err
	case r.Usage == nil:
		return observe.Usage{}, fmt.Errorf("%w: a reply without usage", ErrProtocol)
	}
	return r.Usage.Only(dirs), nil
}
