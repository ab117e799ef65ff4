package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// watchPace is the minimum interval between two usage reports that are accepted.
const watchPace = 100 * time.Millisecond

// Usage returns the container's resource usage, including that of dirs that are separate file
// systems, as reported by the guest.
func (g *Guest) Usage(ctx context.Context, dirs []string) (observe.Usage, error) {
	r, err := g.call(ctx, request{Verb: "usage", Dirs: dirs})
	return usageOf(r, dirs, err)
}

// Watch is like [Guest.Usage], and calls reported whenever the container has reached another
// limit, until the session ends.
func (g *Guest) Watch(ctx context.Context, dirs []string, reported func(observe.Usage)) (observe.Usage, error) {
	l, r, err := g.begin(ctx, request{Verb: "watch", Dirs: dirs})
	if err != nil {
		return observe.Usage{}, err
	}
	g.incoming.Go(func() {
		defer func() { _ = l.stream.Close() }()
		for {
			k, p, err := l.message()
			if err != nil || k != kindData {
				return
			}
			var used observe.Usage
			if json.Unmarshal(p, &used) == nil {
				reported(used.Only(dirs))
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

// maxSeen is the maximum size of a guest's report on watched programs, in bytes.
const maxSeen = 4 << 20

// ExecWatched is like [Guest.Exec] for a program that is watched with all its children. Changes
// in dirs are reported relative to the first such program's start.
func (g *Guest) ExecWatched(ctx context.Context, spec process.Spec, dirs []string) (process.Process, error) {
	return g.exec(ctx, request{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Watch: true, Dirs: dirs})
}

// Observe returns what watched programs did so far, as reported by the guest and within limits.
func (g *Guest) Observe(ctx context.Context) (observe.Seen, error) {
	said := &bounded.Head{Limit: maxSeen, Fail: errTooMuchSeen}
	if err := g.fetch(ctx, request{Verb: "observe"}, said); err != nil {
		return observe.Seen{}, err
	}
	seen, err := observe.Parse(said.Bytes())
	if err != nil {
		return observe.Seen{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return seen, nil
}

var errTooMuchSeen = errors.New("it says more than it may of what it saw")

// Resolve makes the guest answer DNS on the container's loopback: names with their addresses,
// all others with NXDOMAIN. A name "*.x" matches all names below x. It returns when the guest
// listens. reported is called for each question until the session ends.
func (g *Guest) Resolve(ctx context.Context, names map[string][]netip.Addr, reported func(Question)) error {
	l, _, err := g.begin(ctx, request{Verb: "resolve", Names: names})
	if err != nil {
		return err
	}
	g.incoming.Go(func() {
		defer func() { _ = l.stream.Close() }()
		readQuestions(l, g.done, reported)
	})
	return nil
}

// Question is a DNS question of a program in the container.
type Question struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Answered bool   `json:"answered"` // NXDOMAIN if false
}

// Limits of a question. A name has at most 255 bytes (RFC 1035, section 2.3.4).
const (
	maxQuestionName = 255
	maxQuestionType = 32
)

// readQuestions calls reported for each question of a guest, until l or done ends. It limits
// the rate to that of a regular guest.
func readQuestions(l *link, done <-chan struct{}, reported func(Question)) {
	pace := questionPace()
	for {
		k, p, err := l.message()
		if err != nil || k != kindData {
			return
		}
		var q Question
		if json.Unmarshal(p, &q) != nil {
			continue
		}
		if len(q.Name) > maxQuestionName || len(q.Type) > maxQuestionType {
			_ = l.breach(fmt.Errorf("%w: a question of %d bytes", ErrProtocol, len(p)))
			return
		}
		if !waitTurn(pace, done) {
			return
		}
		reported(q)
	}
}

// questionRate is how many questions per second are answered and reported.
const questionRate = 50

func questionPace() *rate.Limiter { return rate.NewLimiter(questionRate, questionRate) }

// waitTurn waits for pace, and reports whether that succeeded before done was closed.
func waitTurn(pace *rate.Limiter, done <-chan struct{}) bool {
	turn := time.NewTimer(pace.Reserve().Delay())
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-done:
		return false
	}
}
