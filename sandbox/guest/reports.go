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

// watchPace is the least time between two reports of usage that are taken from a guest.
const watchPace = 100 * time.Millisecond

// Usage returns what the container used, and how full those of dirs are that are file systems
// of their own, by the guest's account.
func (g *Guest) Usage(ctx context.Context, dirs []string) (observe.Usage, error) {
	r, err := g.call(ctx, request{Verb: "usage", Dirs: dirs})
	return usageOf(r, dirs, err)
}

// Watch is [Guest.Usage], and calls told whenever the container has run into a limit since,
// until the session ends.
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

// maxSeen bounds what a guest reports of observed programs, in bytes.
const maxSeen = 4 << 20

// ExecWatched is [Guest.Exec] of a program that is observed, with all that it starts. Changes in
// dirs are those since the first such program was started.
func (g *Guest) ExecWatched(ctx context.Context, spec process.Spec, dirs []string) (process.Process, error) {
	return g.exec(ctx, request{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Watch: true, Dirs: dirs})
}

// Observe returns what observed programs did so far, by the guest's account and within bounds.
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

// Resolve has the guest answer DNS on the container's loopback: names with their
// addresses, everything else with NXDOMAIN. A name that begins with "*." stands for all
// below the rest of it. It returns once the guest listens; told is called for each
// question until the session ends.
func (g *Guest) Resolve(ctx context.Context, names map[string][]netip.Addr, reported func(Question)) error {
	l, _, err := g.begin(ctx, request{Verb: "resolve", Names: names})
	if err != nil {
		return err
	}
	g.incoming.Go(func() {
		defer func() { _ = l.stream.Close() }()
		hearQuestions(l, g.done, reported)
	})
	return nil
}

// Question is a DNS question that a program in the container asked.
type Question struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Answered bool   `json:"answered"` // false: NXDOMAIN
}

// Limits of a question. A name has at most 255 bytes (RFC 1035, section 2.3.4).
const (
	maxQuestionName = 255
	maxQuestionType = 32
)

// hearQuestions calls told for each question that a guest reports, until l or done ends. A guest
// that reports more of them than an honest one is heard at the honest one's rate.
func hearQuestions(l *link, done <-chan struct{}, reported func(Question)) {
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
		if !await(pace, done) {
			return
		}
		reported(q)
	}
}

// questionRate is how many questions are told to the runner, and answered, a second.
const questionRate = 50

func questionPace() *rate.Limiter { return rate.NewLimiter(questionRate, questionRate) }

// await waits for the next turn, and reports whether it came before done was closed.
func await(pace *rate.Limiter, done <-chan struct{}) bool {
	turn := time.NewTimer(pace.Reserve().Delay())
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-done:
		return false
	}
}
