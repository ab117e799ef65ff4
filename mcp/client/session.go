// Package client is waza's MCP client. The runner uses it to probe servers before a trial, to call
// tools for graders after the agent has stopped, and to inspect servers; the built-in agents use it
// too.
//
// It only speaks streamable HTTP, in both eras of the protocol: the runner too talks to servers
// through the proxy, with Own of package proxy. A [Session] rejects requests from the server,
// except those to an agent that the task has answers for. If the server has ended a session, the
// client begins a new one, once for each request. [Servers] are an agent's sessions with the
// servers of its mcp.json.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mirror"
	"github.com/waza-isolate/waza/mcp/transport"
)

// protocolEra determines how a conversation with a server begins.
type protocolEra string

const (
	eraSessions  protocolEra = "sessions"  // initialize, up to 2025-11-25
	eraStateless protocolEra = "stateless" // server/discover, from 2026-07-28
)

const (
	sessionsVersion  = "2025-11-25" // last revision with sessions
	statelessVersion = "2026-07-28" // first revision without sessions
)

// Session is a conversation with a server. It is not safe for concurrent use.
type Session struct {
	*options
	conn    *httpConn
	era     protocolEra
	info    catalog.Server  // as the server describes itself
	hello   json.RawMessage // result of the first request
	asked   int64           // the last request's id
	ignores bool            // the server ignores unknown requests

	mirrored map[string][]mirror.Argument // by tool, the arguments that headers repeat

	stopListening func() // nil unless an agent answers requests
}

const (
	agentHasStopped = "the agent has stopped, and nobody answers in its place"
	nobodyAnswers   = "the server is being inspected, and nobody answers its requests"
)

// Open opens a session with a server, for questions after the agent. If the server rejects
// initialize, Open tries server/discover. s.Start limits the time until the first response. Errors
// are of type [*Error]. The caller must close the session.
func Open(ctx context.Context, s transport.Server) (*Session, error) {
	o := newOptions(s)
	o.refusal = agentHasStopped
	return o.open(ctx)
}

// Attach continues a session that the agent had with a process, after a request with the id last.
// session and version are the agent's; session is empty if the protocol has no sessions. The caller
// must close the session.
func Attach(s transport.Server, session, version string, last int64) *Session {
	o := newOptions(s)
	o.refusal = agentHasStopped
	era := eraSessions
	if session == "" {
		era, version = eraStateless, ""
	}
	conn := &httpConn{options: o, era: era, session: session, version: version, answered: true}
	return &Session{options: o, conn: conn, era: era, asked: last}
}

// Inspect opens a session as [Open] does, for an inspection.
func Inspect(ctx context.Context, s transport.Server) (*Session, error) {
	o := newOptions(s)
	o.refusal = nobodyAnswers
	return o.open(ctx)
}

// join opens a session over HTTP for an agent of that name. If the server supports a revision
// without sessions, join uses that; early means that the server is known not to. The first request
// is not repeated. answers may be nil. Errors are of type [*Error]. The caller must close the
// session.
func join(ctx context.Context, s transport.Server, name string, early bool, answers *answerer) (*Session, error) {
	o := newOptions(s)
	o.name, o.once, o.refusal, o.answerer = name, true, "the agent answers no requests of servers", answers
	if answers.answers(s.Name) {
		o.refusal = "the agent answers no such requests"
	}
	o.server.Message = transport.DefaultMessage
	asked := int64(0)
	if !early {
		short, cancel := context.WithTimeout(ctx, maxDiscovery)
		defer cancel()
		joined, err := o.begin(short, eraStateless, 0)
		if err == nil && joined.supports(statelessVersion) {
			return joined, nil
		}
		if err == nil {
			joined.Close()
		}
		asked = 1
	}
	return o.begin(ctx, eraSessions, asked)
}

// maxDiscovery is how long a server gets to answer server/discover, which some ignore.
const maxDiscovery = 5 * time.Second

// supports reports whether the server offers a version of the protocol without sessions.
func (s *Session) supports(version string) bool {
	for v := range jsontext.Elements(jsontext.Member(s.hello, "supportedVersions")) {
		if jsontext.Word(v) == version {
			return true
		}
	}
	return false
}

// options configures a session.
type options struct {
	server  transport.Server
	name    string            // of the client
	once    bool              // the first request is not repeated
	refusal string            // error message for requests from the server
	headers map[string]string // of the next request, besides those of the protocol

	answerer *answerer // of requests from the server; nil if all are rejected
}

// maxMessage is the maximum size of a message in bytes, unless the server's limit is lower.
// Tool lists are far smaller.
const maxMessage = 16 << 20

func newOptions(s transport.Server) *options {
	s = s.WithDefaults()
	s.Message = min(s.Message, maxMessage)
	return &options{server: s, name: "waza"}
}

// program returns the program of the runner's own session; nil if there is none.
func (o *options) program() *transport.Program {
	if o.server.Upstream.Running == nil {
		return nil
	}
	return o.server.Upstream.Running()
}

func (o *options) open(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.server.Start, fmt.Errorf("startup_timeout is %v", o.server.Start))
	defer cancel()
	s, err := o.begin(ctx, eraSessions, 0)
	if errors.Is(err, ErrRefused) {
		if s, second := o.begin(ctx, eraStateless, 0); second == nil {
			return s, nil
		}
	}
	return s, err // the first error is more useful: few servers support only discover
}

// begin opens a session of the given era, after asked requests.
func (o options) begin(ctx context.Context, era protocolEra, asked int64) (_ *Session, err error) {
	s := &Session{options: &o, era: era, asked: asked, conn: &httpConn{options: &o, era: era}}
	if err := s.handshake(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// fail returns an error for the server of the session.
func (o *options) fail(class, cause error) error {
	p := o.program()
	return &Error{Server: o.server.Name, Class: class, Cause: cause, Stderr: p.Output(), Stray: p.Noise()}
}

// exited returns the error for a server whose program has ended.
func (o *options) exited() error {
	p := o.program()
	end, _ := p.Ended()
	return &Error{
		Server: o.server.Name, Class: ErrExited, Cause: errors.New(end.String()), Exit: end.Known(), Stderr: p.Output(), Stray: p.Noise(),
	}
}

// params holds the parameters of a request.
type params map[string]any

func (o *options) clientInfo() params { return params{"name": o.name, "version": "1"} }

// handshake sends the first request and reads the server's identity.
func (s *Session) handshake(ctx context.Context) error {
	method, given := "initialize", params{"protocolVersion": sessionsVersion, "capabilities": s.capabilities(), "clientInfo": s.clientInfo()}
	if s.era == eraStateless {
		method, given = "server/discover", params{}
	}
	answer, err := s.send(ctx, method, given)
	if err != nil {
		return err
	}
	if s.info, err = readHello(s.era, answer); err != nil {
		return s.fail(ErrRefused, err)
	}
	s.hello = answer.Result
	if s.era == eraStateless {
		return nil
	}
	err = s.conn.notify(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err == nil && s.answerer.answers(s.server.Name) {
		s.stop() // the stream of an earlier session
		s.stopListening = s.listen(context.Background())
	}
	return err
}

// listen handles messages that the server sends without a request, until ctx ends or stop is called.
func (s *Session) listen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	conn, ended := *s.conn, make(chan struct{}) // a copy, since requests modify s.conn
	go func() {
		defer close(ended)
		if conn.era == eraSessions {
			conn.listen(ctx)
		}
	}()
	return func() { cancel(); <-ended }
}

// capabilities returns the capabilities that the client declares.
func (o *options) capabilities() params { return o.answerer.capabilities(o.server.Name) }

// Limits of a request of 2026-07-28 for which the server requires input.
const (
	maxRounds = 10
	maxInputs = 100 // in one round
)

// request sends a request. If the server requires input for it, request provides that if the task
// has an answer. It may modify given.
func (s *Session) request(ctx context.Context, method string, given params) (jsonrpc.Message, error) {
	m, err := s.attempt(ctx, method, given)
	for range maxRounds {
		if err != nil || !s.requiresInput(m.Result) || !s.provide(ctx, m.Result, given) {
			break
		}
		m, err = s.send(ctx, method, given)
	}
	return m, err
}

// requiresInput reports whether a result asks for a retry with input.
func (s *Session) requiresInput(result []byte) bool {
	return s.era == eraStateless && jsontext.Text(jsontext.Member(result, "resultType")) == "input_required"
}

// provide adds the input that a result asks for to the parameters of the retry (2026-07-28
// basic/patterns/mrtr). It returns false if a part of it has no answer, or an error as its answer,
// which a retry cannot carry.
func (s *Session) provide(ctx context.Context, result []byte, given params) bool {
	if !s.answerer.answers(s.server.Name) {
		return false
	}
	responses := map[string]json.RawMessage{}
	for key, one := range jsontext.Members(jsontext.Member(result, "inputRequests")) {
		m, err := jsonrpc.Read(one)
		if err != nil || len(responses) == maxInputs {
			return false
		}
		r, ok := s.answerer.reply(ctx, s.server.Name, m)
		if !ok || r.Result == nil {
			return false
		}
		responses[key] = r.Result
	}
	delete(given, "inputResponses")
	delete(given, "requestState")
	if len(responses) > 0 {
		given["inputResponses"] = responses
	}
	if state := jsontext.Member(result, "requestState"); state != nil {
		given["requestState"] = json.RawMessage(state)
	}
	return true
}

// attempt sends a request, again in a new session if the server has ended the session (2025-11-25
// basic/transports, "Session Management"). It may modify given.
func (s *Session) attempt(ctx context.Context, method string, given params) (jsonrpc.Message, error) {
	if _, ended := s.program().Ended(); ended {
		return jsonrpc.Message{}, s.exited()
	}
	m, err := s.send(ctx, method, given)
	if !errors.Is(err, ErrGone) {
		return m, err
	}
	if err := s.handshake(ctx); err != nil {
		return jsonrpc.Message{}, err
	}
	return s.send(ctx, method, given)
}

// send sends a request. It may modify given.
func (s *Session) send(ctx context.Context, method string, given params) (jsonrpc.Message, error) {
	s.asked++
	if s.era == eraStateless {
		meta := map[string]any{
			"io.modelcontextprotocol/protocolVersion":    statelessVersion,
			"io.modelcontextprotocol/clientInfo":         s.clientInfo(),
			"io.modelcontextprotocol/clientCapabilities": s.capabilities(),
		}
		if more, ok := given["_meta"].(map[string]any); ok {
			maps.Copy(meta, more)
		}
		given["_meta"] = meta
	}
	raw, err := jsonrpc.Request(int(s.asked), method, given)
	if err != nil {
		return jsonrpc.Message{}, fmt.Errorf("%s: %w", method, err)
	}
	m, err := s.conn.ask(ctx, strconv.FormatInt(s.asked, 10), string(raw))
	if err == nil && s.server.Upstream.Running != nil && m.Error != nil && refused(m.Error) != evidence.OutcomeProtocolError {
		return jsonrpc.Message{}, s.unanswered(m.Error)
	}
	return m, err
}

// unanswered returns the error for a request that the proxy answered instead of the server.
func (s *Session) unanswered(said []byte) error {
	select {
	case <-s.program().Gone():
		return s.exited()
	case <-time.After(lastWords):
		return s.fail(ErrNoAnswer, errors.New(jsontext.Text(jsontext.Member(said, "message"))))
	}
}

// lastWords is how long to wait for the exit of a program that is about to end.
const lastWords = time.Second

// readHello reads the response to the first request, in either era.
func readHello(era protocolEra, m jsonrpc.Message) (info catalog.Server, err error) {
	switch {
	case m.Error != nil:
		return info, errors.New(describe(m.Error))
	case m.Odd != nil && m.Result == nil:
		return info, fmt.Errorf("its answer is wrong: %w", m.Odd)
	case m.Result == nil:
		return info, errors.New("its answer has no result")
	}
	info.Protocol = jsontext.Text(jsontext.Member(m.Result, "protocolVersion"))
	who := jsontext.Member(m.Result, "serverInfo")
	if era == eraStateless {
		who = jsontext.Member(jsontext.Member(m.Result, "_meta"), "io.modelcontextprotocol/serverInfo")
		for version := range jsontext.Elements(jsontext.Member(m.Result, "supportedVersions")) {
			info.Protocol = jsontext.Word(version)
			break
		}
	}
	if info.Protocol == "" {
		return info, errors.New("its answer names no protocol version")
	}
	info.Protocol = transport.Clip([]byte(info.Protocol))
	info.Name = transport.Clip([]byte(jsontext.Text(jsontext.Member(who, "name"))))
	info.Version = transport.Clip([]byte(jsontext.Text(jsontext.Member(who, "version"))))
	return info, nil
}

// describe returns the code and message of a JSON-RPC error.
func describe(e []byte) string {
	return fmt.Sprintf("%d %s", jsonrpc.Code(e), transport.Clip([]byte(jsontext.Text(jsontext.Member(e, "message")))))
}

// Call calls a tool and returns the response as received. arguments is a JSON object or empty.
// Errors are of type [*Error].
func (s *Session) Call(ctx context.Context, tool string, arguments json.RawMessage) (jsonrpc.Message, error) {
	return s.get(ctx, "tools/call", params{"name": tool}, arguments)
}

// Read reads a resource. Its errors are those of [Session.Call].
func (s *Session) Read(ctx context.Context, uri string) (jsonrpc.Message, error) {
	return s.get(ctx, "resources/read", params{"uri": uri}, nil)
}

// Get gets a prompt. arguments is a JSON object or empty. Its errors are those of
// [Session.Call].
func (s *Session) Get(ctx context.Context, prompt string, arguments json.RawMessage) (jsonrpc.Message, error) {
	return s.get(ctx, "prompts/get", params{"name": prompt}, arguments)
}

// Forward sends a request on behalf of someone else. Its errors are those of [Session.Call].
func (s *Session) Forward(ctx context.Context, method string, of json.RawMessage) (jsonrpc.Message, error) {
	given := params{}
	for name, value := range jsontext.Members(of) {
		if name != "_meta" {
			given[name] = json.RawMessage(value)
		}
	}
	return s.request(ctx, method, given)
}

func (s *Session) get(ctx context.Context, method string, given params, arguments json.RawMessage) (jsonrpc.Message, error) {
	if len(arguments) > 0 {
		given["arguments"] = arguments
	}
	return s.request(ctx, method, given)
}

// Catalog returns the server's description of itself from the start of the conversation,
// without lists.
func (s *Session) Catalog() catalog.Catalog {
	return catalog.Catalog{
		Server:       s.info,
		Instructions: jsontext.Text(jsontext.Member(s.hello, "instructions")),
		Capabilities: capabilitiesOf(s.hello),
	}
}

// Listen handles messages that the server sends without a request, until ctx ends. If the
// server's program ends first it returns an error that says how.
func (s *Session) Listen(ctx context.Context) error {
	gone := s.program().Gone()
	defer s.listen(ctx)()
	select {
	case <-gone:
		end, _ := s.program().Ended()
		return errors.New(end.String())
	case <-ctx.Done():
		return nil
	}
}

// Close ends the session.
func (s *Session) Close() {
	s.stop()
	s.conn.close()
}

func (s *Session) stop() {
	if s.stopListening != nil {
		s.stopListening()
	}
}

// answers parses raw and returns the response to the request with the given id, as JSON. The server
// may have spelled the id as the other type. If there is no such response, ok is false and m is
// another response, if raw has one.
func answers(raw []byte, id string) (m jsonrpc.Message, ok bool) {
	asked, _ := jsonrpc.ParseID([]byte(id))
	all, _, _ := jsonrpc.Hear(raw)
	for _, one := range all {
		switch {
		case one.Method != "":
		case one.ID.Key == asked.Key, one.ID.Key == asked.Twin():
			return one, true
		default:
			m = one
		}
	}
	return m, false
}

// stray describes an answer to no request, or returns "".
func stray(m jsonrpc.Message, id string) string {
	if m.ID.Key == "" {
		return ""
	}
	return fmt.Sprintf("it answered with id %s, and was asked with id %s", transport.Clip(m.ID.Raw), id)
}

// reply returns the response to a request from the server, or "" if none must be sent. It answers
// ping and the requests that the task has answers for, and rejects all others.
func (o *options) reply(ctx context.Context, raw []byte) string {
	m, ok := parseOne(raw)
	if o.refusal == "" || !ok || !m.IsRequest() {
		return ""
	}
	if m.Method == "ping" {
		return string(jsonrpc.Answer(m.ID, params{}))
	}
	r, ok := o.answerer.reply(ctx, o.server.Name, m)
	switch {
	case !ok:
		return string(jsonrpc.Refuse(m.ID, jsonrpc.MethodNotFound, o.refusal))
	case r.Result == nil:
		return string(jsonrpc.Refuse(m.ID, r.Code, r.Message))
	}
	return string(jsonrpc.Answer(m.ID, r.Result))
}

// parseOne parses raw and reports whether it is a valid message other than a batch.
func parseOne(raw []byte) (jsonrpc.Message, bool) {
	all, batch, err := jsonrpc.Hear(raw)
	if err != nil || batch {
		return jsonrpc.Message{}, false
	}
	return all[0], true
}
