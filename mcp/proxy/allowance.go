package proxy

import (
	"fmt"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Limits on the refused messages of the agent that are recorded, per server.
const (
	refusedKept      = 200
	refusedKeptBytes = 16 << 20
)

// tally counts the messages sent in one direction and compares them with the limits.
type tally struct {
	maxFrames, maxBytes int64
	frames, bytes       atomic.Int64
	full                atomic.Bool // the record has no room for more
}

// take counts messages of n bytes in total and reports whether they are within the limits.
func (t *tally) take(frames, n int64) bool {
	sum, bytes := t.frames.Add(frames), t.bytes.Add(n)
	return !defence.CountedMessages || sum <= t.maxFrames && bytes <= t.maxBytes && !t.full.Load()
}

// over reports whether a limit was exceeded.
func (t *tally) over() bool {
	return t.frames.Load() > t.maxFrames || t.bytes.Load() > t.maxBytes || t.full.Load()
}

// allowance limits the traffic between the agent and one server in a trial. Each direction
// has its own limits, so that neither side is blamed for the other.
type allowance struct {
	fromAgent   tally        // messages from the agent
	fromServer  tally        // messages from the server
	emptyEvents tally        // events from the server without a message, such as comments
	answers     atomic.Int64 // responses from the agent to the server's requests
	refused     tally        // messages from the agent over the limits that are recorded anyway
}

func newAllowance(s Server) *allowance {
	return &allowance{
		fromAgent: tally{maxFrames: s.Frames, maxBytes: s.Traffic}, fromServer: tally{maxFrames: s.Frames, maxBytes: s.Traffic},
		emptyEvents: tally{maxFrames: transport.DefaultFrames, maxBytes: transport.DefaultTraffic}, refused: tally{maxFrames: refusedKept, maxBytes: refusedKeptBytes},
	}
}

// of returns the tally of messages in one direction.
func (a *allowance) of(dir evidence.Direction) *tally {
	if dir == evidence.ToServer {
		return &a.fromAgent
	}
	return &a.fromServer
}

// takeEvent counts an event from the server and reports whether it is within the limits.
func (a *allowance) takeEvent(e transport.Event) bool {
	if len(e.Data) == 0 {
		return a.emptyEvents.take(1, int64(len(e.Raw)))
	}
	return a.fromServer.take(1, int64(len(e.Raw)))
}

// countMessage counts a message from the agent and returns which limit it exceeds, or "". Answers
// to the server's requests count only once there are more of them than messages from the
// server, since a server can send requests without end.
func (s *server) countMessage(in inbound) (why string) {
	if len(in.raw) == 0 || s.isOwn() {
		return ""
	}
	frames := int64(1)
	if len(in.env.messages) > 0 && len(in.env.of(response)) == len(in.env.messages) {
		if s.allowed.answers.Add(1) <= s.allowed.fromServer.frames.Load() {
			frames = 0
		}
	}
	if !s.allowed.fromAgent.take(frames, int64(len(in.raw))) {
		why = fmt.Sprintf("the agent sent server %q more than %d messages, or %d bytes of them", s.Name, s.Frames, s.Traffic)
	}
	if s.allowed.fromAgent.full.Load() {
		why = fmt.Sprintf("the agent's messages to server %q fill their half of its file of frames", s.Name)
	}
	calls := int64(0)
	for _, m := range in.env.of(request) {
		if m.method == methodCallTool {
			calls++
		}
	}
	if calls > 0 && s.proxy.calls.Add(calls) > s.proxy.limits.Calls {
		why = fmt.Sprintf("the agent made more than %d calls of tools", s.proxy.limits.Calls)
	}
	return why
}
