package guest

import (
	"context"
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// maxSeen is how many bytes a guest may take to say what it saw.
const maxSeen = 4 << 20

// ExecWatched is Exec of a program that is watched, and of all that it starts. What it
// changes in dirs is told against what was there before the first such program.
func (g *Guest) ExecWatched(ctx context.Context, spec process.Spec, dirs []string) (process.Process, error) {
	return g.exec(ctx, request{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Watch: true, Dirs: dirs})
}

// Observe is what programs that were watched did so far: the guest's word, within
// bounds.
func (g *Guest) Observe(ctx context.Context) (observe.Seen, error) {
	said := &bounded.Head{Limit: maxSeen, Fail: errSaysMuch}
	if err := g.fetch(ctx, request{Verb: "observe"}, said); err != nil {
		return observe.Seen{}, err
	}
	seen, err := observe.Parse(said.Bytes())
	if err != nil {
		return observe.Seen{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return seen, nil
}

var errSaysMuch = errors.New("it says more than it may of what it saw")
