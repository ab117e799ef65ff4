// Package transport connects to MCP servers: programs on stdio, and servers on streamable HTTP or
// on the HTTP+SSE transport of 2024-11-05. It reads their output message by message within fixed
// limits.
//
// Servers are hostile. A [Lines] or a reader of this package holds one message of limited size at a
// time, accounted for in a shared budget.
//
// The package knows no methods and no sessions. Package proxy uses it for all sessions; package
// client is the client in the sessions of the runner and of the built-in agents.
package transport

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Reasons why a connection ends or a message is not delivered.
var (
	ErrTooLong  = bounded.ErrTooLong
	ErrNoMemory = bounded.ErrNoMemory
	ErrFlooded  = errors.New("the server exceeded its limit on messages, or bytes of messages, in one trial")
	ErrEncoded  = errors.New("its response has a Content-Encoding, which it was asked not to use")
	ErrRedirect = errors.New("redirect is not followed")
	ErrEndpoint = errors.New("endpoint event is not followed")
)

// Defaults of limits that an eval can set.
const (
	DefaultMessage = 64 << 20
	DefaultFrames  = 100_000
	DefaultTraffic = 256 << 20
)

// Server configures how to connect to an MCP server, and its limits. Package mcpconfig has
// validated its name and URL.
type Server struct {
	Name     string    // as the agent knows it
	Launch   Launcher  // starts a process that communicates over stdio
	Upstream *Upstream // endpoint of a server that speaks HTTP; replaces Launch
	Played   bool      // answered from a cassette or mcp_mocks, not by the server itself
	Stderr   io.Writer // receives the stderr of all its processes; nil discards it

	// Start limits one Launch, and the time to open one of the runner's own sessions;
	// default a minute. Timeout limits one request; default 300 s. Grace is how long a process
	// gets to exit after its stdin is closed, and again after SIGTERM; default 2 s.
	Start, Timeout, Grace time.Duration
	// Message is the maximum size of a message in bytes; default 64 MiB.
	Message int64
	// Frames and Traffic limit the number of messages, and their bytes, in each direction;
	// default 100,000 and 256 MiB.
	Frames, Traffic int64
}

// NotUTF8 is the message of the event for a server whose messages are not all UTF-8.
const NotUTF8 = "the server sent a message that is not UTF-8; outside of its frames, U+FFFD stands for each wrong byte"

// WithDefaults returns s with zero fields set to their defaults.
func (s Server) WithDefaults() Server {
	s.Start = cmp.Or(s.Start, mcpconfig.DefaultStartup)
	s.Timeout = cmp.Or(s.Timeout, mcpconfig.DefaultRequest)
	s.Grace = cmp.Or(s.Grace, 2*time.Second)
	s.Message = cmp.Or(s.Message, DefaultMessage)
	s.Frames, s.Traffic = cmp.Or(s.Frames, DefaultFrames), cmp.Or(s.Traffic, DefaultTraffic)
	return s
}

// Streamable reports whether the server speaks streamable HTTP.
func (s Server) Streamable() bool { return s.Upstream != nil && !s.Upstream.Events }

// Launcher returns the launcher to pass to [Open] for a server that does not speak
// streamable HTTP. It starts a process or an HTTP+SSE session.
func (s Server) Launcher(memory *bounded.Budget) Launcher {
	if s.Upstream == nil {
		return s.Launch
	}
	return launchEvents(s.Upstream, s.Message, memory, s.Timeout)
}

// NewStderr returns the writer for the stderr of one process. It writes to out, if that is not nil,
// and keeps the beginning and end for error messages.
func NewStderr(out io.Writer) *bounded.Ends {
	return &bounded.Ends{Head: 1 << 10, Tail: 2 << 10, W: out}
}

const (
	// maxEvents is the maximum number of events of one kind recorded per server.
	maxEvents = 200
	// MaxText is the maximum length of untrusted text in an event, in bytes.
	MaxText = 4 << 10
)

// EventRecorder records events; [evidence.Recorder] implements it.
type EventRecorder interface{ Event(evidence.Event) }

// Events records the events of one server, up to a number of each kind. It is safe for
// concurrent use.
type Events struct {
	rec   EventRecorder
	where string

	mu   sync.Mutex
	seen map[string]int // by kind; guarded by mu
}

// NewEvents returns the events of server where. With a nil recorder nothing is recorded.
func NewEvents(rec EventRecorder, where string) *Events {
	return &Events{rec: rec, where: where, seen: map[string]int{}}
}

// Add records an event, unless too many of its kind were recorded.
func (n *Events) Add(kind, message string, data map[string]any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rec == nil {
		return
	}
	n.seen[kind]++
	switch seen := n.seen[kind]; {
	case seen > maxEvents:
		return
	case seen == maxEvents:
		message, data = "further events of this kind are not recorded", nil
	}
	n.rec.Event(evidence.Event{Kind: kind, Where: n.where, Message: message, Data: data})
}

// Clip returns text sent by a server, shortened for an event.
func Clip(said []byte) string {
	return strings.ToValidUTF8(text.Shorten(string(said[:min(len(said), MaxText+1)]), MaxText), "\uFFFD")
}
