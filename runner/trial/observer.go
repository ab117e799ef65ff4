package trial

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// observer records what happens in a trial, and scans it for canaries.
type observer struct {
	*evidence.Recorder
	canaries *canaryScanner
	calls    *callWatch
	shares   Shares
	acted    *atomic.Bool // set when the agent calls a tool
	sender   evidence.Sender
}

// Frame implements proxy.Recorder. Messages of the runner may hold canaries.
func (o observer) Frame(f evidence.Frame) int64 {
	if f.Sender == evidence.SenderRunner {
		return o.Recorder.Frame(f)
	}
	f.Sender, f.Conn = cmp.Or(o.sender, evidence.SenderAgent), o.conn(f.Conn)
	number := o.Recorder.Frame(f)
	o.canaries.frame(f, number)
	return number
}

// Event implements proxy.Recorder. Events that a container can cause in any number count
// towards the share of its author, and are dropped beyond it.
func (o observer) Event(e evidence.Event) {
	if conn, ok := e.Data["conn"].(string); ok {
		e.Data = maps.Clone(e.Data)
		e.Data["conn"] = o.conn(conn)
	}
	if fits(e, o.shareOf(e.Where)) {
		o.Recorder.Event(e)
	}
	o.canaries.event(e)
}

// conn returns the name of a conversation in the record: those of hooks and of the agent are counted
// separately.
func (o observer) conn(name string) string {
	if o.sender == "" {
		return name
	}
	return string(o.sender) + "/" + name
}

// fits takes the cost of an event that a container can cause in any number from a share, and
// reports whether there was room.
func fits(e evidence.Event, share *bounded.Budget) bool {
	return !slices.Contains([]string{"dns", "egress", "stdout_noise"}, e.Kind) || share.Take(2*evidence.CostOf([]byte(e.Message)))
}

// shareOf returns the share that a container's evidence counts towards, or nil if it is
// unlimited.
func (o observer) shareOf(container string) *bounded.Budget {
	if container == sandbox.Agent {
		return o.shares.Agent
	}
	server, _, _ := strings.Cut(container, "/")
	return o.shares.Servers[server]
}

// ModelCall implements gateway.Recorder. It drops bodies that exceed the agent's share.
func (o observer) ModelCall(c evidence.ModelCall) {
	if !o.shares.Agent.Take(evidence.ModelCost(c)) {
		c.Truncated += int64(len(c.Request) + len(c.Response))
		c.Request, c.Response = nil, nil
	}
	o.Recorder.ModelCall(c)
}

// Called implements proxy.Watcher. A call of a hook is an event, so that a reader of the trial sees
// it.
func (o observer) Called(server, tool string) (over func()) {
	if o.sender == evidence.SenderHook {
		o.Event(evidence.Event{Kind: evidence.EventHookCall, Where: server, Message: "a hook calls " + o.calls.clean(tool)})
		return func() {}
	}
	o.acted.Store(true)
	return o.calls.called(server, tool)
}

// Named implements outsideRecorder.
func (o observer) Named(container, host string) {
	o.canaries.hostName(container, evidence.ByEgress, host)
}

// Tap implements outsideRecorder.
func (o observer) Tap(container, host string) io.Writer {
	return o.canaries.outgoing(func(found secret.FoundCanary) { o.canaries.sent(container, host, found) })
}

// outsideRecorder records what happens in a container and what it sends to hosts outside.
type outsideRecorder interface {
	proxy.Recorder
	// Named is called with the host of each attempt to connect, even if no event is recorded.
	Named(container, host string)
	// Tap returns a writer for the plain bytes that one connection sends to a host.
	Tap(container, host string) io.Writer
}

// Calling is the state of the agent's tool calls, for a live display.
type Calling struct {
	// Server and Tool are those of the latest unanswered call, or else of the call that was
	// answered last.
	Server, Tool string
	Open         int // unanswered calls
	Calls        int // all calls so far
}

// callWatch tracks the tool calls of a trial. The proxy bounds how many can be unanswered.
type callWatch struct {
	secrets *secret.Set
	report  func(Calling)

	mu    sync.Mutex // held during report, to keep its calls in order
	calls int        // guarded by mu
	open  []openCall // unanswered calls; guarded by mu
}

type openCall struct {
	number       int
	server, tool string
}

// called records the start of a call, and returns a function for its end.
func (w *callWatch) called(server, tool string) (over func()) {
	tool = w.clean(tool)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	call := openCall{w.calls, server, tool}
	w.open = append(w.open, call)
	w.reportLocked(call)
	return func() { w.over(call) }
}

// clean returns the name of a tool, short and without secrets.
func (w *callWatch) clean(tool string) string {
	tool, _ = w.secrets.Cut(strings.ToValidUTF8(text.Shorten(tool, maxToolName), "\uFFFD"))
	return tool
}

func (w *callWatch) over(call openCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(c openCall) bool { return c.number == call.number })
	if n := len(w.open); n > 0 {
		call = w.open[n-1]
	}
	w.reportLocked(call)
}

func (w *callWatch) reportLocked(c openCall) {
	w.report(Calling{Server: c.server, Tool: c.tool, Open: len(w.open), Calls: w.calls})
}

const (
	// minShare is the smallest useful share of the agent and of each server, in bytes.
	minShare = 4 << 20
	// costOfBytes estimates the evidence per byte of a message.
	costOfBytes = 8
	// modelEvidence is more than the gateway records in a trial.
	modelEvidence = 4 << 30
)

// Shares are the bytes of evidence that the agent and each server of a trial may cause. The
// zero value is unlimited.
type Shares struct {
	Agent   *bounded.Budget
	Servers map[string]*bounded.Budget
}

// Used returns how many bytes of all shares are used and left.
func (s Shares) Used() (used, left int64) {
	used, left = s.Agent.Used(), s.Agent.Max()-s.Agent.Used()
	for _, server := range s.Servers {
		used, left = used+server.Used(), left+server.Max()-server.Used()
	}
	return used, left
}

// SizeOf returns the total size of a task's files in bytes. They are in before.tar and
// workspace.tar, and count towards no share.
func SizeOf(files []plan.File) (n int64) {
	for _, f := range files {
		n += f.Size()
	}
	return n
}

// LeastShare returns how many bytes of evidence a trial must at least be able to record.
func LeastShare(t *plan.Trial) int64 { return minShare * int64(1+len(t.Servers)) }

// SharesOf divides each bytes of evidence: half for the agent, the rest for the servers. No
// share is larger than what the other limits allow to write.
func SharesOf(t *plan.Trial, each int64) Shares {
	agent := costOfBytes*2*t.Agent.OutputLimit() + maxTree(t.Agent.Disk) + 2*maxTranscript
	if t.Models != nil {
		agent += modelEvidence
	}
	agent *= 1 + int64(len(t.Checkpoints)) // each checkpoint is a copy
	most := map[string]int64{}
	for _, s := range t.Servers {
		crossing := costOfBytes*cmp.Or(s.MaxTraffic, transport.DefaultTraffic) + 2<<10*cmp.Or(s.MaxFrames, transport.DefaultFrames)
		agent += 2 * crossing
		most[s.Name] = crossing + maxServiceOutput*int64(1+2*len(s.Services))
	}
	own := SizeOf(t.Files)
	if len(most) == 0 {
		return Shares{Agent: bounded.NewBudget(min(agent, each) + own)}
	}
	s := Shares{Agent: bounded.NewBudget(min(agent, each/2) + own), Servers: map[string]*bounded.Budget{}}
	for name, limit := range most {
		s.Servers[name] = bounded.NewBudget(min(limit, each/2/int64(len(most))))
	}
	return s
}
