package proxy

import (
	"cmp"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Limits bound what agent and servers can cost the runner. A zero field takes
// its default; there is no unlimited. Memory counts a message once: while it is
// written or recorded there may be copies of it.
type Limits struct {
	Message  int64 // bytes of one message, either way; default 64 MiB
	Memory   int64 // bytes of messages held at once in the whole proxy; default 256 MiB
	Sessions int   // sessions of one server at once; default 64
	Launches int   // processes of one server in all; default 1000
	InFlight int   // requests of one session at once; default 64
	Queue    int   // messages that wait for one stream to take them; default 1024
	Conns    int   // connections that [Proxy.Serve] keeps at once; default 256
	Replay   int64 // bytes of messages kept after they were sent, for streams that are resumed; default 32 MiB
	Stderr   int64 // bytes kept of all a server's stderr; default 16 MiB
	Calls    int64 // requests of the agent's to call a tool, in all; default 10,000
	Frames   int64 // messages between the agent and one server in all, each way; default 100,000
	Traffic  int64 // bytes of them, each way; default 256 MiB

	// Share is what recording the agent's messages, and the answers to them, may take; nil for
	// no limit.
	Share *bounded.Budget

	Body  time.Duration // until a request's body is in; default 60 s
	Write time.Duration // until the agent has taken one message; default 30 s
	Idle  time.Duration // of silence until a response becomes a stream, and between keepalives; default 10 s
	Grace time.Duration // a process gets after its stdin closed, and again after SIGTERM; default 2 s
}

// DefaultCalls is how many calls of tools an agent may make.
const DefaultCalls = 10_000

func (l Limits) withDefaults() Limits {
	return Limits{
		Message:  cmp.Or(l.Message, transport.DefaultMessage),
		Memory:   cmp.Or(l.Memory, 256<<20),
		Sessions: cmp.Or(l.Sessions, 64),
		Launches: cmp.Or(l.Launches, 1000),
		InFlight: cmp.Or(l.InFlight, 64),
		Queue:    cmp.Or(l.Queue, 1024),
		Conns:    cmp.Or(l.Conns, 256),
		Replay:   cmp.Or(l.Replay, 32<<20),
		Stderr:   cmp.Or(l.Stderr, 16<<20),
		Calls:    cmp.Or(l.Calls, DefaultCalls),
		Frames:   cmp.Or(l.Frames, transport.DefaultFrames),
		Traffic:  cmp.Or(l.Traffic, transport.DefaultTraffic),
		Share:    l.Share,
		Body:     cmp.Or(l.Body, time.Minute),
		Write:    cmp.Or(l.Write, 30*time.Second),
		Idle:     cmp.Or(l.Idle, 10*time.Second),
		Grace:    cmp.Or(l.Grace, 2*time.Second),
	}
}
