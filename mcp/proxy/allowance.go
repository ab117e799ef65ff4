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

// errServerShare says that a server has had all recorded that it may, and errAgentShare that
// an answer of its does not fit into what the agent may, which asked for it.
var (
	errServerShare = fmt.Errorf("its share of the evidence is full: %w", transport.ErrFlooded)
	errAgentShare  = errors.New("its answer does not fit into the agent's share of the evidence")
)

// refusedKept bounds what is recorded of messages beyond an allowance, for each
// server.
const (
	refusedKept      = 200
	refusedKeptBytes = 16 << 20
)

// tally counts what crosses one way against its limits.
type tally struct {
	maxFrames, maxBytes int64
	frames, bytes       atomic.Int64
	share               *bounded.Budget // of who sends that way
}

// take says whether a message of n bytes is within the limits, and counts it.
func (t *tally) take(frames, n int64) bool {
	sum, bytes := t.frames.Add(frames), t.bytes.Add(n)
	return !defence.CountedMessages || sum <= t.maxFrames && bytes <= t.maxBytes && !t.share.Over()
}

// keep says whether there is room to record a message, and counts it.
func (t *tally) keep(cost int64) bool { return t.share.Take(cost) || !defence.CountedMessages }

// over says whether something was not within the limits.
func (t *tally) over() bool {
	return t.frames.Load() > t.maxFrames || t.bytes.Load() > t.maxBytes || t.share.Over()
}

// allowance is what may cross between the agent and one server in a trial. Each way
// has limits of its own, so that neither end is to blame for the other.
type allowance struct {
	said    tally        // by the agent
	heard   tally        // from the server
	silent  tally        // events of its streams that hold no message, such as comments
	answers atomic.Int64 // of the agent's, to what the server asked
	unasked atomic.Int64 // messages of the server's that answer nothing
	refused tally        // what is recorded of the agent's messages beyond it
}

func newAllowance(s Server, agent *bounded.Budget) *allowance {
	limits := func(share *bounded.Budget) tally {
		return tally{maxFrames: s.Frames, maxBytes: s.Traffic, share: share}
	}
	return &allowance{said: limits(agent), heard: limits(s.Share), silent: tally{maxFrames: transport.DefaultFrames, maxBytes: transport.DefaultTraffic}, refused: tally{maxFrames: refusedKept, maxBytes: refusedKeptBytes}}
}

// hear says whether an event of the server's is within the limits, and counts it.
func (a *allowance) hear(e transport.Event) bool {
	if len(e.Data) == 0 {
		return a.silent.take(1, int64(len(e.Raw)))
	}
	return a.heard.take(1, int64(len(e.Raw)))
}

// keep counts what recording a message of the server's takes: of the agent's share where it
// answers the agent, and else of the server's. It fails where that has no room.
func (s *server) keep(raw []byte, asked bool) error {
	if s.allowed.said.share == nil && s.allowed.heard.share == nil {
		return nil
	}
	cost := evidence.CostOf(raw)
	if s.tools != nil || len(s.injects) > 0 {
		cost *= 2 // it may be recorded as each end has it
	}
	switch {
	case !asked:
		s.allowed.unasked.Add(1)
		if !s.allowed.heard.keep(cost) {
			return errServerShare
		}
	case !s.allowed.said.keep(cost):
		why := s.agentShareIsFull()
		s.proxy.overspent.CompareAndSwap(nil, &why)
		s.events.Add("limit", why+"; the answer is not kept", nil)
		return errAgentShare
	}
	return nil
}

func (s *server) agentShareIsFull() string {
	return fmt.Sprintf("the agent's messages, and the answers to them, take more than %d bytes of evidence, which is its share", s.allowed.said.share.Max())
}

// answerCost is what a server pays of the agent's answer to what it asked: as much as it
// paid for asking, at least. The rest is the agent's.
const answerCost = 2 << 10

// keepSaid counts what recording a message of the agent's takes.
func (a *allowance) keepSaid(raw []byte, answers int64) bool {
	if a.said.share == nil {
		return true
	}
	cost := evidence.CostOf(raw)
	if answers > 0 && answers <= a.unasked.Load() {
		ours := min(cost, answerCost)
		a.heard.share.Take(ours)
		cost -= ours
	}
	return a.said.keep(cost)
}

// spend counts a message of the agent's, and says why it is one too many. Answers
// to a server's questions count as messages only beyond what that server has sent:
// it could ask without end.
func (s *server) spend(c call) (why string) {
	if len(c.raw) == 0 {
		return ""
	}
	frames, answers := int64(1), int64(0)
	if len(c.env.messages) > 0 && len(c.env.of(response)) == len(c.env.messages) {
		if answers = s.allowed.answers.Add(1); answers <= s.allowed.heard.frames.Load() {
			frames = 0
		}
	}
	if !s.allowed.said.take(frames, int64(len(c.raw))) {
		why = fmt.Sprintf("the agent sent server %q more than %d messages, or %d bytes of them", s.Name, s.Frames, s.Traffic)
	}
	if !s.allowed.keepSaid(c.raw, answers) {
		why = s.agentShareIsFull()
	}
	calls := int64(0)
	for _, m := range c.env.of(request) {
		if m.method == methodCallTool {
			calls++
		}
	}
	if calls > 0 && s.proxy.calls.Add(calls) > s.proxy.limits.Calls {
		why = fmt.Sprintf("the agent made more than %d calls of tools", s.proxy.limits.Calls)
	}
	return why
}
