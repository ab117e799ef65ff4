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

// errServerShare says that a server has used up its share of the evidence, and errAgentShare
// that an answer does not fit into the share of the agent that asked for it.
var (
	errServerShare = fmt.Errorf("its share of the evidence is full: %w", transport.ErrFlooded)
	errAgentShare  = errors.New("its answer does not fit into the agent's share of the evidence")
)

// refusedKept and refusedKeptBytes bound what is recorded of messages beyond an allowance, for each
// server.
const (
	refusedKept      = 200
	refusedKeptBytes = 16 << 20
)

// tally counts messages in one direction against their limits.
type tally struct {
	maxFrames, maxBytes int64
	frames, bytes       atomic.Int64
	share               *bounded.Budget // of the sender
}

// take counts messages of n bytes, and reports whether they are within the limits.
func (t *tally) take(frames, n int64) bool {
	sum, bytes := t.frames.Add(frames), t.bytes.Add(n)
	return !defence.CountedMessages || sum <= t.maxFrames && bytes <= t.maxBytes && !t.share.Over()
}

// keep counts the cost of recording a message, and reports whether there is room.
func (t *tally) keep(cost int64) bool { return t.share.Take(cost) || !defence.CountedMessages }

// over reports whether a limit was exceeded.
func (t *tally) over() bool {
	return t.frames.Load() > t.maxFrames || t.bytes.Load() > t.maxBytes || t.share.Over()
}

// allowance is how much may cross between the agent and one server in a trial. Each direction has
// limits of its own, so that neither end is blamed for the other.
type allowance struct {
	fromAgent   tally        // messages of the agent
	fromServer  tally        // messages of the server
	emptyEvents tally        // events of the server without a message, such as comments
	answers     atomic.Int64 // of the agent, to requests of the server
	unasked     atomic.Int64 // messages of the server that answer nothing
	refused     tally        // messages of the agent beyond the limits that are recorded
}

func newAllowance(s Server, agent *bounded.Budget) *allowance {
	limits := func(share *bounded.Budget) tally {
		return tally{maxFrames: s.Frames, maxBytes: s.Traffic, share: share}
	}
	return &allowance{fromAgent: limits(agent), fromServer: limits(s.Share), emptyEvents: tally{maxFrames: transport.DefaultFrames, maxBytes: transport.DefaultTraffic}, refused: tally{maxFrames: refusedKept, maxBytes: refusedKeptBytes}}
}

// takeEvent counts an event of the server's, and reports whether it is within the limits.
func (a *allowance) takeEvent(e transport.Event) bool {
	if len(e.Data) == 0 {
		return a.emptyEvents.take(1, int64(len(e.Raw)))
	}
	return a.fromServer.take(1, int64(len(e.Raw)))
}

// keepFromServer counts the cost of recording a message of the server's: against the agent's
// share if the agent asked for it, and else against the server's. It fails if that share is
// full.
func (s *server) keepFromServer(raw []byte, asked bool) error {
	if s.allowed.fromAgent.share == nil && s.allowed.fromServer.share == nil {
		return nil
	}
	cost := evidence.CostOf(raw)
	if s.tools != nil || len(s.injects) > 0 {
		cost *= 2 // it may be recorded as each end has it
	}
	switch {
	case !asked:
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

// answerCost is how much of the agent's answer counts against the share of the server that
// asked: about as much as its question. The rest counts against the agent's share.
const answerCost = 2 << 10

// keepFromAgent counts the cost of recording a message of the agent's, and reports whether there is
// room.
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

// spend counts a message of the agent's, and returns why it exceeds a limit; empty if it does
// not. Answers to a server's requests count only if they are more than the messages that the
// server has sent, since a server could send requests without end.
func (s *server) spend(in inbound) (why string) {
	if len(in.raw) == 0 {
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
