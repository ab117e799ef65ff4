package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Classes of an [Error].
var (
	ErrNotStarted   = errors.New("did not start")
	ErrExited       = errors.New("exited before it answered")
	ErrNoAnswer     = errors.New("did not answer in time")
	ErrUnreachable  = errors.New("cannot be reached")
	ErrRefused      = errors.New("answered with an error")
	ErrGone         = errors.New("has ended the session")
	ErrUnauthorized = errors.New("requires authorization")
	ErrTools        = errors.New("lacks tools that the agent is to see")
)

// Error is the reason why a server cannot be used.
type Error struct {
	Server string
	Class  error         // one of the classes above
	Cause  error         // may be nil
	Exit   *process.Exit // for class ErrExited, if known
	Stderr string        // beginning and end of its stderr
	Stray  string        // beginning and end of its stdout without messages, if stdout carries messages
}

// Error names the server and the reason, and quotes the server's output.
func (e *Error) Error() string {
	said := fmt.Sprintf("MCP server %q %s", e.Server, e.reason())
	if printed := strings.TrimSpace(e.Stderr); printed != "" {
		said += "; its stderr:\n" + printed
	}
	if printed := strings.TrimSpace(e.Stray); printed != "" {
		said += "; its stdout, which is for MCP messages alone:\n" + printed
	}
	return said
}

// reason returns the class and the cause.
func (e *Error) reason() string {
	switch {
	case e.Cause == nil:
		return e.Class.Error()
	case e.Exit != nil:
		return e.Cause.Error() + " before it answered"
	}
	return e.Class.Error() + ": " + e.Cause.Error()
}

// Unwrap returns the class and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Cause}
}

// Probe checks that a server answers and has the tools that the agent uses; nil means all.
// It returns the server's self-description, which is not verified. If discover is set it also
// checks whether the server supports server/discover, for agents that start with it. Probe
// opens a session as [Open] does and closes it before it returns. It records the result as an
// event of kind "health".
func Probe(ctx context.Context, rec transport.EventRecorder, s transport.Server, tools []string, discover bool) (info catalog.Server, noDiscover bool, err error) {
	o, events := newOptions(s), transport.NewEvents(rec, s.Name)
	ctx, cancel := context.WithTimeoutCause(ctx, o.server.Start, fmt.Errorf("startup_timeout is %v", o.server.Start))
	defer cancel()
	session, err := o.open(ctx)
	if err == nil {
		defer session.Close()
		err = checkTools(ctx, session, s.Name, tools)
	}
	if err != nil {
		events.Add(kindHealth, err.Error(), nil)
		return info, false, err
	}
	info = session.info
	if discover && session.era == eraSessions {
		soon, cancel := context.WithTimeout(ctx, grace)
		_, err := session.request(soon, "server/discover", params{})
		cancel()
		noDiscover = err != nil
	}
	events.Add(kindHealth, "answers", map[string]any{"name": info.Name, "version": info.Version, "protocol": info.Protocol})
	return info, noDiscover, nil
}

const kindHealth = "health"

// checkTools checks that the server has the tools that the agent uses, since a misspelled
// name would silently hide a tool.
func checkTools(ctx context.Context, s *Session, server string, tools []string) error {
	if tools == nil {
		return nil
	}
	l, err := s.list(ctx, catalog.Tools)
	if err != nil {
		return err
	}
	if l.Absent || len(l.Entries) == 0 && l.Partial != "" {
		return s.fail(ErrTools, errors.New("it lists no tools"))
	}
	var there []string
	for _, e := range l.Entries {
		there = append(there, e.Key)
	}
	missing := slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return slices.Contains(there, name) })
	if len(missing) > 0 {
		return &Error{Server: server, Class: ErrTools, Cause: fmt.Errorf("mcp_servers.%s.tools names %s; the server has %s",
			server, quoted(missing), quoted(there))}
	}
	return nil
}

// maxQuoted is the maximum number of names listed in a message.
const maxQuoted = 50

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(text.Some(names, maxQuoted, func(name string) string { return text.Quote(name, 128) }), ", ")
}
