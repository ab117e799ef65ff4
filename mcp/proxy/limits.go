package proxy

import (
	"cmp"
	"time"
)

// Limits bounds the resources that the agent and the servers can use, together with those of
// each [transport.Server]. A zero field means its default, never unlimited. Memory counts each
// message once; there may be copies while it is written or recorded.
type Limits struct {
	Memory   int64 // bytes of messages held at once by the proxy; default 256 MiB
	Sessions int   // concurrent sessions per server; default 64
	Launches int   // processes started per server; default 1000
	InFlight int   // concurrent requests per session; default 64
	Queue    int   // messages queued per stream; default 1024
	Conns    int   // concurrent connections in [Proxy.Serve]; default 256
	Replay   int64 // bytes of sent messages kept for resumed streams; default 32 MiB
	Calls    int64 // tool calls of the agent in total; default 10,000

	Body  time.Duration // to receive a request's body; default 60 s
	Write time.Duration // to write one message to the agent; default 30 s
	Idle  time.Duration // without a message until a response becomes a stream, and between keepalives; default 10 s
}

// DefaultCalls is the default number of tool calls that an agent may make.
const DefaultCalls = 10_000

func (l Limits) withDefaults() Limits {
	return Limits{
		Memory:   cmp.Or(l.Memory, 256<<20),
		Sessions: cmp.Or(l.Sessions, 64),
		Launches: cmp.Or(l.Launches, 1000),
		InFlight: cmp.Or(l.InFlight, 64),
		Queue:    cmp.Or(l.Queue, 1024),
		Conns:    cmp.Or(l.Conns, 256),
		Replay:   cmp.Or(l.Replay, 32<<20),
		Calls:    cmp.Or(l.Calls, DefaultCalls),
		Body:     cmp.Or(l.Body, time.Minute),
		Write:    cmp.Or(l.Write, 30*time.Second),
		Idle:     cmp.Or(l.Idle, 10*time.Second),
	}
}
