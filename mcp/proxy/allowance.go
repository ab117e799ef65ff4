package proxy

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Errors of messages that are not recorded because a share of the evidence is full: the
// server's own, or that of the agent, which also pays for the answers to its requests.
var (
	errServerShare = fmt.Errorf("its share of the evidence is full: %w", transport.ErrFlooded)
	errAgentShare  = errors.New("its answer does not fit into the agent's share of the evidence")
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
	full                atomic.Bool     // the record has no room for more
	share               *bounded.Budget // evidence that the sender may use
}

// take counts messages of n bytes in total and reports whether they are within the limits.
func (t *tally) take(frames, n int64) bool {
	sum, bytes := t.frames.Add(frames), t.bytes.Add(n)
	return !defence.CountedMessages || sum <= t.maxFrames && bytes <= t.maxBytes && !t.full.Load() && !t.share.Over()
}

// keep charges the cost of recording a message and reports whether it fits into the share.
func (t *tally) keep(cost int64) bool { return t.share.Take(cost) || !defence.CountedMessages }

// over reports whether a limit was exceeded.
func (t *tally) over() bool {
	return t.frames.Load() > t.maxFrames || t.bytes.Load() > t.maxBytes || t.full.Load() || t.share.Over()
}

// allowance limits the traffic between the agent and one server in a trial. Each direction
// has its own limits, so that neither side is blamed for the other.
type allowance struct {
	fromAgent   tally        // messages from the agent
	fromServer  tally        // messages from the server
	emptyEvents tally        // events from the server without a message, such as comments
	answers     atomic.Int64 // responses from the agent to the server's requests
	unasked     atomic.Int64 // messages from the server that answer no request
	refused     tally        // messages from the agent over the limits that are recorded anyway
}

func newAllowance(s Server, agent *bounded.Budget) *allowance {
	limits := func(share *bounded.Budget) tally {
		return tally{maxFrames: s.Frames, maxBytes: s.Traffic, share: share}
	}
	return &allowance{fromAgent: limits(agent), fromServer: limits(s.Share), emptyEvents: tally{maxFrames: transport.DefaultFrames, maxBytes: transport.DefaultTraffic}, refused: tally{maxFrames: refusedKept, maxBytes: refusedKeptBytes}}
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

// keepFromServer charges the cost of recording a message from the server: to the agent's
// share if the agent asked for it, otherwise to the server's. It returns errAgentShare or
// errServerShare if that share is full.
func (s *server) keepFromServer(raw []byte, asked bool) error {
	if s.allowed.fromAgent.share == nil && s.allowed.fromServer.share == nil {
		return nil
	}
	cost := evidence.CostOf(raw)
	if s.tools != nil || len(s.Inject) > 0 {
		cost *= 2 // the versions of server and agent may both be recorded
	}
	switch {
	case !asked, s.isOwn():
		s.allowed.unasked.Add(1)
		if !s.allowed.fromServer.keep(cost) {
			return errServerShare
		}
	case !s.allowed.fromAgent.keep(cost):
		why := s.agentShareIsFull()
		s.proxy.overspent.CompareAndSwap(nil, &why)
		s.events.Add("limit", why+"; the answer is not kept", nil)
		return errAgentShare
	}
	return nil
}

func (s *server) agentShareIsFull() string {
	return fmt.Sprintf("the agent's messages, and the answers to them, take more than %d bytes of evidence, which is its share", s.allowed.fromAgent.share.Max())
}

// answerCost is the number of bytes of an agent's answer that are charged to the server
// that sent the request, about the cost of the request itself. The agent pays for the rest.
const answerCost = 2 << 10

// keepFromAgent charges the cost of recording a message from the agent and reports whether
// it fits into the shares.
func (a *allowance) keepFromAgent(raw []byte, answers int64) bool {
	if a.fromAgent.share == nil {
		return true
	}
	cost := evidence.CostOf(raw)
	if answers > 0 && answers <= a.unasked.Load() {
		ours := min(cost, answerCost)
		a.fromServer.share.Take(ours)
		cost -= ours
	}
	return a.fromAgent.keep(cost)
}

// countMessage counts a message from the agent and returns which limit it exceeds, or "". Answers
// to the server's requests count only once there are more of them than messages from the
// server, since a server can send requests without end.
func (s *server) countMessage(in inbound) (why string) {
	if len(in.raw) == 0 || s.isOwn() {
		return ""
	}
	frames, answers := int64(1), int64(0)
	if len(in.env.messages) > 0 && len(in.env.of(response)) == len(in.env.messages) {
		if answers = s.allowed.answers.Add(1); answers <= s.allowed.fromServer.frames.Load() {
			frames = 0
		}
	}
	if !s.allowed.fromAgent.take(frames, int64(len(in.raw))) {
		why = fmt.Sprintf("the agent sent server %q more than %d messages, or %d bytes of them", s.Name, s.Frames, s.Traffic)
	}
	if !s.allowed.keepFromAgent(in.raw, answers) {
		why = s.agentShareIsFull()
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
