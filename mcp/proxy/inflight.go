package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// open records the requests of a POST and has their answers routed to the
// exchange it returns. It waits while an id of them is in use by another.
func (l *link) open(c call) (*exchange, error) {
	ex := newExchange(l, c)
	ctx, cancel := context.WithTimeout(c.ctx, l.server.Timeout)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order)+l.waiting >= l.server.proxy.limits.InFlight {
		l.server.events.Add("limit", fmt.Sprintf("%d requests at once are the most", l.server.proxy.limits.InFlight),
			map[string]any{"conn": l.conn})
		return nil, errBusy
	}
	l.waiting++
	defer func() { l.waiting-- }()
	for {
		if l.over {
			return nil, transport.ErrEnded
		}
		turn, taken := l.conflict(ex)
		if !taken {
			break
		}
		if err := l.wait(ctx, turn); err != nil {
			return nil, err
		}
	}
	if !l.server.proxy.memory.Take(ex.held) {
		return nil, transport.ErrNoMemory
	}
	l.begin(ex, c)
	return ex, nil
}

// conflict says whether an id of ex is taken, and how long the ones of requests
// that were given up stay so; turn is 0 where one is in flight.
func (l *link) conflict(ex *exchange) (turn time.Duration, taken bool) {
	for key := range ex.open {
		if l.pending[key] != nil {
			return 0, true
		}
		if left := l.lateIDs.left(key); left > 0 {
			return left, true
		}
	}
	return 0, false
}

// wait gives the lock up until an id became free, turn is over where it is not 0,
// or ctx has ended.
func (l *link) wait(ctx context.Context, turn time.Duration) error {
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	var timer <-chan time.Time
	if turn > 0 {
		t := time.NewTimer(turn)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-changed:
	case <-timer:
	case <-ctx.Done():
		return errInUse
	}
	return nil
}

// wake has requests look again whether their ids are free.
func (l *link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) begin(ex *exchange, c call) {
	for key := range ex.open {
		l.pending[key] = ex
	}
	l.order = append(l.order, ex)
	l.lastStream++
	ex.stream = l.lastStream
	l.streams[ex.stream] = ex
	l.recordClient(c)
	if defence.Timeouts && !ex.endless {
		ex.timer = time.AfterFunc(l.server.Timeout, func() { l.expire(ex) })
	}
}

// giveUp closes ex to answers, and returns the ids it still waited for.
func (l *link) giveUp(ex *exchange) []jsonrpc.ID {
	var given []jsonrpc.ID
	for key, id := range ex.open {
		given = append(given, id)
		l.late++
		if !l.over {
			l.lateIDs.add(key)
		}
		l.settle(ex, key)
	}
	return given
}

// settle marks one id of ex as answered.
func (l *link) settle(ex *exchange, key string) {
	delete(ex.open, key)
	delete(l.pending, key)
	l.wake()
	if len(ex.open) > 0 {
		return
	}
	l.order = slices.DeleteFunc(l.order, func(other *exchange) bool { return other == ex })
	if ex.timer != nil {
		ex.timer.Stop()
	}
	l.server.proxy.memory.Give(ex.held)
	ex.settled()
}

// answer gives ex an answer of the proxy's own, and records it as such.
func (l *link) answer(ex *exchange, id jsonrpc.ID, why evidence.Synthetic, code int, text string, last bool) {
	raw := errorResponse(id.Raw, code, text)
	l.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
	l.deliver(ex, item{raw: raw, last: last, failed: true})
}
