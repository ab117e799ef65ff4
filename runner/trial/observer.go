package trial

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/canary"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/sandbox"
)

// observer records what happens in a trial, and looks for canaries in it.
type observer struct {
	*evidence.Recorder
	canaries *canaryScanner
	calls    *callWatch
	shares   Shares
	acted    *atomic.Bool // set when the agent calls a tool
}

// Frame implements proxy.Recorder.
func (o observer) Frame(f evidence.Frame) int64 {
	number := o.Recorder.Frame(f)
	o.canaries.frame(f, number)
	return number
}

// Event implements proxy.Recorder. What a container brings about as often as it likes is its
// author's to pay for, and not recorded beyond that.
func (o observer) Event(e evidence.Event) {
	if !slices.Contains([]string{"dns", "egress", "stdout_noise"}, e.Kind) || o.shareOf(e.Where).Take(2*evidence.CostOf([]byte(e.Message))) {
		o.Recorder.Event(e)
	}
	o.canaries.event(e)
}

// shareOf is the share of who lives in a container; nil, which has no end, for nobody's.
func (o observer) shareOf(container string) *bounded.Budget {
	if container == sandbox.Agent {
		return o.shares.Agent
	}
	server, _, _ := strings.Cut(container, "/")
	return o.shares.Servers[server]
}

// ModelCall implements gateway.Recorder. What does not fit into the agent's share is left out
// of it.
func (o observer) ModelCall(c evidence.ModelCall) {
	if !o.shares.Agent.Take(evidence.ModelCost(c)) {
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
func (o observer) Named(container, host string) { o.canaries.named(container, evidence.ByEgress, host) }

// Tap implements overseer.
func (o observer) Tap(container, host string) io.Writer {
	return o.canaries.outgoing(func(found canary.Found) { o.canaries.left(container, host, found) })
}

// outsideRecorder takes what happens in a container, and what leaves it for hosts outside.
type outsideRecorder interface {
	proxy.Recorder
	// Named gets the host of each attempt to leave, also of those that have no event of
	// their own.
	Named(container, host string)
	// Tap is what gets the bytes of one connection to a host that leave in the clear.
	Tap(container, host string) io.Writer
}

// Calling is where the agent's calls of tools stand while it is at work, for whoever
// watches. What became of them the evidence tells.
type Calling struct {
	// Server and Tool are of the latest call that waits for its answer, or else of the one
	// that has just got it.
	Server, Tool string
	Open         int // calls that wait
	Calls        int // so far
}

// maxOpenCalls is how many calls that wait are told apart.
const maxOpenCalls = 64

// callWatch follows the calls of one attempt at a trial.
type callWatch struct {
	secrets *redact.Set
	tell    func(Calling)

	mu    sync.Mutex // held while telling, so that what is told is in order
	calls int        // guarded by mu
	count int        // of those that wait; guarded by mu
	open  []openCall // the latest of them; guarded by mu
}

type openCall struct {
	number       int
	server, tool string
}

// called is told of a call, and the function it returns of its end.
func (w *callWatch) called(server, tool string) (over func()) {
	tool, _ = w.secrets.Cut(strings.ToValidUTF8(text.Shorten(tool, maxToolName), "\uFFFD"))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.count++
	call := openCall{w.calls, server, tool}
	if len(w.open) == maxOpenCalls {
		w.open = slices.Delete(w.open, 0, 1)
	}
	w.open = append(w.open, call)
	w.tellLocked(call)
	return func() { w.over(call) }
}

func (w *callWatch) over(call openCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	w.open = slices.DeleteFunc(w.open, func(c openCall) bool { return c.number == call.number })
	if n := len(w.open); n > 0 {
		call = w.open[n-1]
	}
	w.tellLocked(call)
}

func (w *callWatch) tellLocked(c openCall) {
	w.tell(Calling{Server: c.server, Tool: c.tool, Open: w.count, Calls: w.calls})
}
