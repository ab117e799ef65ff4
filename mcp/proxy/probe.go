package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Classes of a [ProbeError].
var (
	ErrNotStarted   = errors.New("did not start")
	ErrExited       = errors.New("exited before it answered")
	ErrNoAnswer     = errors.New("did not answer in time")
	ErrUnreachable  = errors.New("cannot be reached")
	ErrRefused      = errors.New("answered with an error")
	ErrUnauthorized = errors.New("wants authorization")
	ErrTools        = errors.New("lacks tools that the agent is to see")
)

// ProbeError says why a server is not usable.
type ProbeError struct {
	Server string
	Class  error         // one of the classes above
	Cause  error         // more about it; may be nil
	Exit   *process.Exit // where the class is ErrExited and the exit is known
	Stderr string        // the beginning and the end of what it wrote there
}

// Error names the server, the reason, and the first and last lines of its stderr.
func (e *ProbeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %q %v", e.Server, e.Class)
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if last := strings.TrimSpace(e.Stderr); last != "" {
		fmt.Fprintf(&b, "; its stderr:\n%s", last)
	}
	return b.String()
}

func (e *ProbeError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Cause}
}

// Era is how a server begins a conversation.
type Era string

const (
	EraSessions  Era = "sessions"  // initialize, up to 2025-11-25
	EraStateless Era = "stateless" // server/discover, from 2026-07-28
)

// ServerInfo is what a server said of itself. All of it is the server's word.
type ServerInfo struct {
	Name, Version   string
	ProtocolVersion string
	Era             Era
}

// Probe checks that a server answers, and that it has the tools which the agent is
// to see. It starts a process of its own, asks it to initialize and, where that is
// refused, asks another process to discover; the processes have ended when it
// returns. A server that speaks HTTP is asked where it is, again and again while it
// starts, and its session is ended. Server.Start bounds the time until it answered,
// and Limits.Grace the time to see it off. What is said goes to rec as events of
// kind "health". Errors are of type [*ProbeError].
func Probe(ctx context.Context, rec Recorder, limits Limits, s Server) (ServerInfo, error) {
	if err := s.validate(); err != nil {
		return ServerInfo{}, err
	}
	if !limits.valid() {
		return ServerInfo{}, errors.New("proxy: a limit is negative")
	}
	p := newProber(rec, limits.withDefaults(), s)
	ctx, cancel := context.WithTimeoutCause(ctx, p.server.Start, fmt.Errorf("%v have passed", p.server.Start))
	defer cancel()
	info, err := p.ask(ctx, EraSessions)
	if errors.Is(err, ErrRefused) {
		var second error
		if info, second = p.ask(ctx, EraStateless); second != nil {
			if errors.Is(second, ErrTools) {
				err = second
			}
			p.note(err.Error(), nil)
			return ServerInfo{}, err // the first says more: few servers know discover alone
		}
		err = nil
	}
	if err != nil {
		p.note(err.Error(), nil)
		return ServerInfo{}, err
	}
	p.note("answers", map[string]any{"name": info.Name, "version": info.Version, "protocol": info.ProtocolVersion})
	return info, nil
}

type prober struct {
	server Server
	limits Limits
	sink   *bounded.Head
	notes  *notes
	// refusal is what the server is told that asks something; empty where nobody answers.
	refusal string
	tape    *tape  // nil where what is said is noted alone
	hello   []byte // the first answer, once it was understood
	listed  int    // pages of lists that were asked for
}

func newProber(rec Recorder, limits Limits, s Server) *prober {
	p := &prober{server: s.withDefaults(limits), limits: limits, notes: newNotes(rec, s.Name, limits.Notes)}
	p.sink = newStderrSink(s.Stderr, limits.Stderr, func() {
		p.note(fmt.Sprintf("only the first %d bytes of stderr are kept", limits.Stderr), nil)
	})
	return p
}

// ask asks the era's questions.
func (p *prober) ask(ctx context.Context, era Era) (ServerInfo, error) {
	if p.server.passes() {
		return p.askHTTP(ctx, era)
	}
	return p.askProcess(ctx, era)
}

// asked tells what is sent to the server, and heard what it sends.
func (p *prober) asked(message string) {
	if p.tape != nil {
		p.tape.record(evidence.ToServer, []byte(message))
		return
	}
	p.note("asked", map[string]any{"raw": message})
}

func (p *prober) heard(raw []byte) error {
	if p.tape != nil {
		return p.tape.hear(raw)
	}
	p.note("said", map[string]any{"raw": clip(raw), "bytes": len(raw)})
	return nil
}

func (p *prober) note(message string, data map[string]any) { p.notes.add("health", message, data) }

// maxProbed is how many bytes one message may have that answers a probe, where the
// server's limit is not lower. Who it is, and its tools, take far less.
const maxProbed = 16 << 20

func (p *prober) message() int64 { return min(p.server.Message, maxProbed) }

// budget is for the messages of one conversation: the one that is read, the one that
// is looked at, and what growing costs.
func (p *prober) budget() *bounded.Budget { return bounded.NewBudget(4 * p.message()) }
