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
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// observer records what happens in a trial, and scans it for canaries.
type observer struct {
	*evidence.Recorder
	canaries *canaryScanner
	calls    *callWatch
	acted    *atomic.Bool // set when the agent calls a tool
	misses   *misses
	sender   evidence.Sender
}

// newObserver returns the observer of a trial, which records to rec.
func newObserver(t *plan.Trial, rec *evidence.Recorder, o Options) (observer, error) {
	canaries, err := scannerFor(t, rec, o.Secrets)
	return observer{Recorder: rec, canaries: canaries, calls: &callWatch{secrets: o.Secrets, report: o.Called}, acted: new(atomic.Bool), misses: newMisses()}, err
}

// ofHooks returns an observer of the trial's hooks. Their calls do not count as the agent's, and
// they may send canaries.
func (o observer) ofHooks() observer {
	o.canaries, o.acted, o.sender = nil, new(atomic.Bool), evidence.SenderHook
	return o
}

// captured returns a function that reads the recorded calls, once, after the agent's sessions have
// ended. It reads them from the trial's files, because messages may be larger than memory and
// graders see them redacted.
func (o observer) captured() func() (capture.Result, error) {
	return sync.OnceValues(func() (capture.Result, error) { return capture.Calls(evidence.Dir(o.Dir()).Frames()) })
}

// recordExit records that a container ended, if it did.
func (o observer) recordExit(container string, e sandbox.Exit) {
	if e.Cause != "" {
		o.Recorder.Event(evidence.Event{Kind: "container_exit", Where: container, Message: e.Message, Data: map[string]any{"by": e.Cause}})
	}
}

// Frame implements proxy.Recorder. It does not scan the runner's own messages for canaries.
func (o observer) Frame(f evidence.Frame) int64 {
	if f.Sender == evidence.SenderRunner {
		return o.Recorder.Frame(f)
	}
	f.Sender, f.Conn = cmp.Or(o.sender, evidence.SenderAgent), o.conn(f.Conn)
	number := o.Recorder.Frame(f)
	o.canaries.frame(f, number)
	return number
}

// Event implements proxy.Recorder.
func (o observer) Event(e evidence.Event) {
	if conn, ok := e.Data["conn"].(string); ok {
		e.Data = maps.Clone(e.Data)
		e.Data["conn"] = o.conn(conn)
	}
	o.Recorder.Event(e)
	o.canaries.event(e)
}

// conn returns the name of a connection in the record. Connections of hooks and of the agent are
// counted separately.
func (o observer) conn(name string) string {
	if o.sender == "" {
		return name
	}
	return string(o.sender) + "/" + name
}

// Called implements proxy.Watcher. A hook's call is recorded as an event, so that readers of the
// trial see it.
func (o observer) Called(server, tool string) (over func()) {
	if o.sender == evidence.SenderHook {
		o.Event(evidence.Event{Kind: evidence.EventHookCall, Where: server, Message: "a hook calls " + beginning(tool, maxToolName, o.calls.secrets)})
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
	tool = beginning(w.secrets.String(tool), maxToolName, w.secrets)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	call := openCall{w.calls, server, tool}
	w.open = append(w.open, call)
	w.reportLocked(call)
	return func() { w.over(call) }
}

// beginning returns the beginning of untrusted text, for an event. If the text is too long, secrets
// are replaced before it is cut; otherwise the recorder replaces and counts them.
func beginning(said string, most int, secrets *secret.Set) string {
	if len(said) > most {
		said = secrets.String(said)
	}
	return strings.ToValidUTF8(text.Shorten(said, most), "\uFFFD")
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
