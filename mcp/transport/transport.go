// Package transport reaches MCP servers: a program that speaks on its stdin and stdout, or a
// server that speaks HTTP, be it streamable or the HTTP+SSE of 2024-11-05. It reads what they
// send message by message, within limits that no server can widen.
//
// What a server sends is hostile. A [Lines] or a reader of this package holds one message of a
// bounded size at a time, against a budget that all of them share.
//
// It knows no methods and no sessions: package client has the runner's own conversations, and
// package proxy the agent's.
package transport

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
)

// Why a connection ends, or a message does not get through.
var (
	ErrTooLong  = bounded.ErrTooLong
	ErrNoMemory = bounded.ErrNoMemory
	ErrFlooded  = errors.New("the server has sent more messages, or more bytes of them, than it may in one trial")
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

// Server says how an MCP server is reached and what it may cost.
type Server struct {
	Name     string    // what the agent calls it
	Launch   Launcher  // starts a process of its program, which speaks on stdio
	Upstream *Upstream // its endpoint if it speaks HTTP, in place of Launch
	Stderr   io.Writer // takes the stderr of all its processes; nil discards it

	// Start is how long one Launch, and the whole opening of a session of the runner's, may
	// take; default 30 s. Timeout is how long one request may take; default 300 s. Grace is
	// how long a process gets after its stdin was closed, and again after SIGTERM; default 2 s.
	Start, Timeout, Grace time.Duration
	// Message is how many bytes one message may have, either way; default 64 MiB.
	Message int64
	// Frames and Traffic are how many messages, and bytes of them, may cross each way;
	// default 100,000 and 256 MiB.
	Frames, Traffic int64
	// StderrLimit is how many bytes are kept of the stderr of all its processes; default 16 MiB.
	StderrLimit int64
}

// WithDefaults returns s with defaults in place of zeros. It fails if s cannot be a server.
func (s Server) WithDefaults() (Server, error) {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/:@ \t\r\n"):
		return s, fmt.Errorf("%q is no name for a server", s.Name)
	case (s.Launch == nil) == (s.Upstream == nil):
		return s, fmt.Errorf("server %q needs a launcher or an upstream", s.Name)
	case min(int64(s.Start), int64(s.Timeout), int64(s.Grace), s.Message, s.Frames, s.Traffic, s.StderrLimit) < 0:
		return s, fmt.Errorf("server %q has a negative limit", s.Name)
	case s.Upstream != nil:
		if err := s.Upstream.validate(); err != nil {
			return s, fmt.Errorf("server %q: %w", s.Name, err)
		}
	}
	s.Start = cmp.Or(s.Start, 30*time.Second)
	s.Timeout = cmp.Or(s.Timeout, 300*time.Second)
	s.Grace = cmp.Or(s.Grace, 2*time.Second)
	s.Message = cmp.Or(s.Message, DefaultMessage)
	s.Frames, s.Traffic = cmp.Or(s.Frames, DefaultFrames), cmp.Or(s.Traffic, DefaultTraffic)
	s.StderrLimit = cmp.Or(s.StderrLimit, 16<<20)
	return s, nil
}

// Streamable reports whether the server speaks streamable HTTP.
func (s Server) Streamable() bool { return s.Upstream != nil && !s.Upstream.Events }

// Launcher returns the launcher for [Open] of a server that does not speak streamable HTTP: it
// starts a process, or a session over HTTP+SSE.
func (s Server) Launcher(memory *bounded.Budget) Launcher {
	if s.Upstream == nil {
		return s.Launch
	}
	return launchEvents(s.Upstream, s.Message, memory, s.Timeout)
}

// StderrSink returns the writer for the stderr of all processes of the server. It drops what is
// beyond the limit, and records that as an event of the given kind.
func (s Server) StderrSink(events *Events, kind string) *bounded.Head {
	limit, out := s.StderrLimit, s.Stderr
	if out == nil {
		out = io.Discard
	}
	if !defence.BoundedStderr {
		limit = 1 << 30
	}
	return &bounded.Head{W: out, Limit: limit, Full: func() {
		events.Add(kind, fmt.Sprintf("only the first %d bytes of stderr are kept", s.StderrLimit), nil)
	}}
}

// NewStderr returns the writer for the stderr of one process. It writes to the server's sink and
// keeps both ends for messages.
func NewStderr(sink *bounded.Head) *bounded.Ends {
	return &bounded.Ends{Head: 1 << 10, Tail: 2 << 10, W: sink}
}

const (
	// maxEvents is how many events of one kind are recorded of one server.
	maxEvents = 200
	// MaxText is how much of a stranger's text one event holds.
	MaxText = 4 << 10
)

// EventRecorder takes events. [evidence.Recorder] is one.
type EventRecorder interface{ Event(evidence.Event) }

// Events records the events of one server, up to a number of each kind. Its methods may be called
// at the same time.
type Events struct {
	rec   EventRecorder
	where string

	mu   sync.Mutex
	seen map[string]int // by kind; guarded by mu
}

// NewEvents returns events of the server called where; a nil recorder keeps none.
func NewEvents(rec EventRecorder, where string) *Events {
	return &Events{rec: rec, where: where, seen: map[string]int{}}
}

// Add records an event, unless there were too many of its kind.
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
		message, data = "more of this kind are not recorded", nil
	}
	n.rec.Event(evidence.Event{Kind: kind, Where: n.where, Message: message, Data: data})
}

// Clip returns text that a server sent, short enough for an event.
func Clip(said []byte) string {
	return strings.ToValidUTF8(text.Shorten(string(said[:min(len(said), MaxText+1)]), MaxText), "\uFFFD")
}
