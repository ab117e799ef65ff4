package runner

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/canary"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/sandbox"
)

// observer records what happens in a trial, and looks for canaries in it.
type observer struct {
	*evidence.Recorder
	lookout *lookout
	calls   *callWatch
	shares  shares
	acted   *atomic.Bool // set when the agent calls a tool
}

func (tr *trialRun) observer() observer {
	return observer{tr.rec, tr.lookout, tr.calls, tr.shares, &tr.acted}
}

// Frame implements proxy.Recorder.
func (o observer) Frame(f evidence.Frame) int64 {
	number := o.Recorder.Frame(f)
	o.lookout.frame(f, number)
	return number
}

// Event implements proxy.Recorder. What a box brings about as often as it likes is its
// author's to pay for, and not recorded beyond that.
func (o observer) Event(e evidence.Event) {
	if !slices.Contains([]string{"dns", "egress", "stdout_noise"}, e.Kind) || o.shareOf(e.Where).Take(2*evidence.CostOf([]byte(e.Message))) {
		o.Recorder.Event(e)
	}
	o.lookout.event(e)
}

// shareOf is the share of who lives in a box; nil, which has no end, for nobody's.
func (o observer) shareOf(box string) *bounded.Budget {
	if box == sandbox.Agent {
		return o.shares.agent
	}
	server, _, _ := strings.Cut(box, "/")
	return o.shares.servers[server]
}

// ModelCall implements gateway.Recorder. What does not fit into the agent's share is left out
// of it.
func (o observer) ModelCall(c evidence.ModelCall) {
	if !o.shares.agent.Take(evidence.ModelCost(c)) {
		c.Truncated += int64(len(c.Request) + len(c.Response))
		c.Request, c.Response = nil, nil
	}
	o.Recorder.ModelCall(c)
}

// Called implements proxy.Watcher.
func (o observer) Called(server, tool string) (over func()) {
	o.acted.Store(true)
	return o.calls.called(server, tool)
}

// Named implements overseer.
func (o observer) Named(box, host string) { o.lookout.named(box, evidence.ByEgress, host) }

// Tap implements overseer.
func (o observer) Tap(box, host string) io.Writer {
	return o.lookout.outgoing(func(found canary.Found) { o.lookout.left(box, host, found) })
}

// overseer takes what happens in a box, and what leaves it for hosts outside.
type overseer interface {
	proxy.Recorder
	// Named gets the host of each attempt to leave, also of those that have no event of
	// their own.
	Named(box, host string)
	// Tap is what gets the bytes of one connection to a host that leave in the clear.
	Tap(box, host string) io.Writer
}
