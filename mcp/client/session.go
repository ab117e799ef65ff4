// Package client holds the runner's own conversations with MCP servers: the probe of a trial,
// the questions of graders once the agent has stopped, and the inspection of a server.
//
// A [Session] speaks both eras of the protocol, over every transport of package transport. It
// refuses what a server asks of it, does not reconnect, and does not judge what servers answer.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Era is how a server begins a conversation.
type Era string

const (
	EraSessions  Era = "sessions"  // initialize, up to 2025-11-25
	EraStateless Era = "stateless" // server/discover, from 2026-07-28
)

const (
	sessionsVersion  = "2025-11-25" // the last revision with sessions
	statelessVersion = "2026-07-28" // the first one without
)

// ServerInfo is what a server says of itself. None of it is verified.
type ServerInfo struct {
	Name, Version   string
	ProtocolVersion string
	Era             Era
	// NoDiscover says that it was asked server/discover in a session, and did not answer.
	NoDiscover bool
}

// Reply is what a server answered to a request: a result or an error, as it wrote them.
type Reply struct {
	Result, Error json.RawMessage
}

// Session is a conversation that the runner has with a server on its own account. It is for
// one caller at a time.
type Session struct {
	*options
	conn    conn
	era     Era
	info    ServerInfo
	hello   json.RawMessage // the result that began the conversation
	asked   int             // requests
	ignores bool            // requests that it does not know
}

// conn carries the messages of a session. Its errors are of type [*Error].
type conn interface {
	// ask sends a request and returns the answer to it.
	ask(ctx context.Context, id, request string) (jsonrpc.Message, error)
	notify(ctx context.Context, notification string) error
	// unasked returns the messages of a server that is asked nothing; nil if it can send none.
	unasked() <-chan []byte
	close()
}

const (
	agentHasStopped = "the agent has stopped, and nobody answers in its place"
	nobodyAnswers   = "the server is inspected, and nobody answers it"
)

// Open opens a session with a server: in a process of its own, or over HTTP. A server that
// refuses to initialize is asked to discover, in another process. s.Start bounds the time
// until it has answered. Errors are of type [*Error], unless s cannot be a server. The caller
// closes the session. Nothing of it is recorded: it is no part of what the agent did.
func Open(ctx context.Context, s transport.Server) (*Session, error) {
	o, err := newOptions(s, nil)
	if err != nil {
		return nil, err
	}
	o.refusal = agentHasStopped
	return o.open(ctx)
}

// Continue resumes a conversation with a process of the server that somebody else began and has
// left.
func Continue(ctx context.Context, s transport.Server, proc process.Process, era Era) (*Session, error) {
	o, err := newOptions(s, nil)
	if err != nil {
		return nil, err
	}
	o.refusal = agentHasStopped
	c, err := openLines(ctx, o, func(context.Context) (process.Process, error) { return proc, nil })
	if err != nil {
		return nil, err
	}
	return &Session{options: o, conn: c, era: era}, nil
}

// Inspect opens a session as [Open] does, for an inspection of the server, and records every
// message as a frame. The server may send as many as to an agent.
func Inspect(ctx context.Context, rec Recorder, s transport.Server) (*Session, error) {
	o, err := newOptions(s, rec)
	if err != nil {
		return nil, err
	}
	o.refusal = nobodyAnswers
	o.log = &frameLog{rec: rec, events: o.events, server: o.server}
	return o.open(ctx)
}

// options are how a session is held.
type options struct {
	server  transport.Server
	events  *transport.Events
	log     log
	refusal string             // the answer to what the server asks; empty to answer nothing
	program *transport.Program // the server's process; nil if that is not ours
	stray   *bounded.Ends      // what it writes to stdout that is no message
}

// maxMessage is how many bytes one message may have, if the server's limit is not lower. Lists of
// tools take far less.
const maxMessage = 16 << 20

func newOptions(s transport.Server, rec transport.EventRecorder) (*options, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s.Message = min(s.Message, maxMessage)
	o := &options{server: s, events: transport.NewEvents(rec, s.Name), log: noLog{}, stray: &bounded.Ends{Head: 512, Tail: 512}}
	if s.Upstream != nil && s.Upstream.Process != nil {
		o.program = &s.Upstream.Process.Program
	}
	return o, nil
}

func (o *options) open(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.server.Start, fmt.Errorf("startup_timeout is %v", o.server.Start))
	defer cancel()
	s, err := o.begin(ctx, EraSessions)
	if errors.Is(err, ErrRefused) {
		if s, second := o.begin(ctx, EraStateless); second == nil {
			return s, nil
		}
	}
	return s, err // the first error says more: few servers know discover alone
}

// begin opens a session of an era, with options of its own.
func (o options) begin(ctx context.Context, era Era) (_ *Session, err error) {
	s := &Session{options: &o, era: era}
	if o.server.Streamable() {
		s.conn = &httpConn{options: &o, era: era}
	} else if s.conn, err = openLines(ctx, &o, nil); err != nil {
		return nil, err
	}
	if err := s.handshake(ctx); err != nil {
		s.conn.close()
		return nil, err
	}
	return s, nil
}

// fail returns the error that the session's server is not usable.
func (o *options) fail(class, cause error) error {
	return &Error{Server: o.server.Name, Class: class, Cause: cause, Stderr: o.program.Output(), Stray: o.stray.String()}
}

// exited returns the error that the server's program has ended.
func (o *options) exited() error {
	end, _ := o.program.Ended()
	return &Error{
		Server: o.server.Name, Class: ErrExited, Cause: errors.New(end.String()), Exit: end.Known(), Stderr: o.program.Output(), Stray: o.stray.String(),
	}
}

// params are the parameters of a request.
type params map[string]any

func clientInfo() params { return params{"name": "waza", "version": "1"} }

// handshake learns who the server is.
func (s *Session) handshake(ctx context.Context) error {
	method, given := "initialize", params{"protocolVersion": sessionsVersion, "capabilities": params{}, "clientInfo": clientInfo()}
	if s.era == EraStateless {
		method, given = "server/discover", params{}
	}
	answer, err := s.request(ctx, method, given)
	if err != nil {
		return err
	}
	if s.info, err = readHello(s.era, answer); err != nil {
		return s.fail(ErrRefused, err)
	}
	s.hello = answer.Result
	if s.era == EraSessions {
		return s.conn.notify(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return nil
}

// request makes a request. It changes given.
func (s *Session) request(ctx context.Context, method string, given params) (jsonrpc.Message, error) {
	s.asked++
	id := fmt.Sprintf("waza-%d", s.asked) // a string, so that no server takes it for an id of its own
	if s.era == EraStateless {
		given["_meta"] = params{
			"io.modelcontextprotocol/protocolVersion":    statelessVersion,
			"io.modelcontextprotocol/clientInfo":         clientInfo(),
			"io.modelcontextprotocol/clientCapabilities": params{},
		}
	}
	raw, err := jsonrpc.Request(id, method, given)
	if err != nil {
		return jsonrpc.Message{}, fmt.Errorf("%s: %w", method, err)
	}
	return s.conn.ask(ctx, strconv.Quote(id), string(raw))
}

// readHello reads both eras' first answer.
func readHello(era Era, m jsonrpc.Message) (ServerInfo, error) {
	switch {
	case m.Error != nil:
		return ServerInfo{}, errors.New(describe(m.Error))
	case m.Result == nil:
		return ServerInfo{}, errors.New("its answer has no result")
	}
	info := ServerInfo{Era: era, ProtocolVersion: jsontext.Text(jsontext.Member(m.Result, "protocolVersion"))}
	who := jsontext.Member(m.Result, "serverInfo")
	if era == EraStateless {
		who = jsontext.Member(jsontext.Member(m.Result, "_meta"), "io.modelcontextprotocol/serverInfo")
		for version := range jsontext.Elements(jsontext.Member(m.Result, "supportedVersions")) {
			info.ProtocolVersion = jsontext.Word(version)
			break
		}
	}
	if info.ProtocolVersion == "" {
		return ServerInfo{}, errors.New("its answer names no protocol version")
	}
	info.ProtocolVersion = transport.Clip([]byte(info.ProtocolVersion))
	info.Name = transport.Clip([]byte(jsontext.Text(jsontext.Member(who, "name"))))
	info.Version = transport.Clip([]byte(jsontext.Text(jsontext.Member(who, "version"))))
	return info, nil
}

// describe returns the code and the text of a JSON-RPC error.
func describe(e []byte) string {
	return fmt.Sprintf("%d %s", codeOf(e), transport.Clip([]byte(jsontext.Text(jsontext.Member(e, "message")))))
}

func codeOf(e []byte) int {
	code, _ := strconv.Atoi(string(jsontext.Member(e, "code")))
	return code
}

// Call calls a tool. Arguments are an object, or nothing. Errors are of type [*Error], or say
// that the server wants input before it answers.
func (s *Session) Call(ctx context.Context, tool string, arguments json.RawMessage) (Reply, error) {
	return s.get(ctx, "tools/call", params{"name": tool}, arguments)
}

// Read reads a resource, and fails as [Session.Call] does.
func (s *Session) Read(ctx context.Context, uri string) (Reply, error) {
	return s.get(ctx, "resources/read", params{"uri": uri}, nil)
}

// Get gets a prompt, and fails as [Session.Call] does. Arguments are an object, or nothing.
func (s *Session) Get(ctx context.Context, prompt string, arguments json.RawMessage) (Reply, error) {
	return s.get(ctx, "prompts/get", params{"name": prompt}, arguments)
}

func (s *Session) get(ctx context.Context, method string, given params, arguments json.RawMessage) (Reply, error) {
	if len(arguments) > 0 {
		given["arguments"] = arguments
	}
	m, err := s.request(ctx, method, given)
	if err != nil {
		return Reply{}, err
	}
	if s.era == EraStateless && jsontext.Word(jsontext.Member(m.Result, "resultType")) == "input_required" {
		return Reply{}, errors.New("the server wants input before it answers, and nobody gives it any")
	}
	return Reply{Result: m.Result, Error: m.Error}, nil
}

// Offer returns what the server said of itself when the conversation began. It has no lists.
func (s *Session) Offer() catalog.Catalog {
	return catalog.Catalog{
		Server:       catalog.Server{Name: s.info.Name, Version: s.info.Version, Protocol: s.info.ProtocolVersion},
		Instructions: jsontext.Text(jsontext.Member(s.hello, "instructions")),
		Capabilities: capabilitiesOf(s.hello),
	}
}

// Listen answers the server while nothing is asked of it, until ctx ends. If the server ends
// before, the error says how.
func (s *Session) Listen(ctx context.Context) error {
	for {
		select {
		case message := <-s.conn.unasked():
			if reply := s.reply(message); reply != "" {
				_ = s.conn.notify(ctx, reply) // where it fails the process ends, or time does
			}
		case <-s.program.Gone():
			end, _ := s.program.Ended()
			return errors.New(end.String())
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends the session. If it has a process of its own, Close returns when that has ended.
func (s *Session) Close() { s.conn.close() }

// answers reports whether a message answers the request with an id. Both are JSON.
func answers(raw []byte, id string) (jsonrpc.Message, bool) {
	m, ok := parseOne(raw)
	asked, _ := jsonrpc.ParseID([]byte(id))
	return m, ok && m.Method == "" && m.ID.Key == asked.Key
}

// reply returns the answer to what a server asks of the runner; empty if it asks nothing or
// nobody answers. It answers a ping and refuses anything else.
func (o *options) reply(raw []byte) string {
	m, ok := parseOne(raw)
	if o.refusal == "" || !ok || !m.IsRequest() {
		return ""
	}
	if m.Method == "ping" {
		return string(jsonrpc.Answer(m.ID, params{}))
	}
	return string(jsonrpc.Refuse(m.ID, jsonrpc.MethodNotFound, o.refusal))
}

// parseOne reads a valid message that is no batch.
func parseOne(raw []byte) (jsonrpc.Message, bool) {
	all, batch, err := jsonrpc.Parse(raw)
	if err != nil || batch {
		return jsonrpc.Message{}, false
	}
	return all[0], true
}
