package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// server is the proxy's state for a declared server of any transport.
type server struct {
	Server
	proxy   *Proxy
	part    *part        // whom it serves
	handler http.Handler // a bridge or a passThrough
	events  *transport.Events
	tools   toolFilter
	allowed *allowance

	notUTF8 sync.Once  // for the event
	refused sync.Mutex // held to record a refused request and its answer consecutively
}

func newServer(p *Proxy, s Server, whom *part) *server {
	srv := &server{Server: s, proxy: p, part: whom, tools: newToolFilter(s.Tools), allowed: newAllowance(s)}
	srv.events = transport.NewEvents(p.rec, s.Name)
	if s.Streamable() {
		srv.handler = &passThrough{server: srv, sessions: newHTTPSessions(srv)}
	} else {
		srv.handler = &bridge{server: srv, sessions: map[string]*stdioSession{}}
	}
	return srv
}

// isOwn reports whether the server is that of the runner's own sessions.
func (s *server) isOwn() bool { return s.part == &s.proxy.runner }

// connName returns the name of a conversation.
func (s *server) connName(number int) string {
	name := fmt.Sprintf("%s/%d", s.Name, number)
	if s.isOwn() {
		name = string(evidence.SenderRunner) + "/" + name
	}
	return name
}

// serveHTTP serves the server's endpoint.
func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != endpoint {
		http.Error(w, "Not found. The MCP endpoint is "+endpoint+".", http.StatusNotFound)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// conversation records the messages of one conversation with a server.
type conversation struct {
	server *server
	conn   string
}

func (c conversation) record(f evidence.Frame) {
	f.Server, f.Conn = c.server.Name, c.conn
	f.Played = c.server.Played && f.Dir == evidence.ToClient && f.Synthetic == ""
	if c.server.isOwn() {
		f.Sender = evidence.SenderRunner
	}
	if c.server.proxy.rec.Frame(f) == 0 {
		c.server.allowed.of(f.Dir).full.Store(true)
	}
	if f.Dir == evidence.ToClient && !utf8.Valid(f.Raw) {
		c.server.notUTF8.Do(func() {
			c.note("gap", transport.NotUTF8)
		})
	}
}

// note records an event of the conversation.
func (c conversation) note(kind, message string) {
	c.server.events.Add(kind, message, map[string]any{"conn": c.conn})
}

// unsent returns the conversation of messages that reached no process.
func (s *server) unsent() conversation { return conversation{s, s.connName(0)} }

// refusal is the error response to a request that is not forwarded.
type refusal struct {
	status int // HTTP
	code   int // JSON-RPC
	text   string
	err    error // reason for the runner; nil if text says it all
}

// receive reads a request's body, parses it, counts it and forwards its messages. If the body
// or the messages exceed a limit, the proxy is closed, or parse or forward refuses the
// messages, it sends an error response instead.
func (s *server) receive(w http.ResponseWriter, r *http.Request, parse func(raw []byte) (envelope, *refusal), forward func(inbound) *refusal) {
	body, ok := s.readPost(w, r)
	defer body.Release()
	if !ok {
		return
	}
	if !s.part.begin() {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.part.handlers.Done()
	in := inbound{ctx: r.Context(), raw: body.Bytes, peer: peerOf(r)}
	var no *refusal
	in.env, no = parse(in.raw)
	if why := s.countMessage(in); why != "" {
		s.refuseSpent(w, in, why)
		return
	}
	defer s.watchCalls(in)()
	if no == nil {
		no = forward(in)
	}
	if no != nil {
		s.refuse(w, in, *no)
	}
}

// readPost reads a request's body within the limits. If that fails, it sends an error
// response and returns false. The caller must release the body in either case.
func (s *server) readPost(w http.ResponseWriter, r *http.Request) (*bounded.Buffer, bool) {
	limits := s.proxy.limits
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(limits.Body))
	body, err := transport.ReadBody(r.Body, r.ContentLength, s.Message, s.proxy.memory)
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return body, true
	}
	w.Header().Set("Connection", "close")
	switch {
	case errors.Is(err, transport.ErrTooLong):
		s.events.Add("limit", fmt.Sprintf("a request was over %d bytes", s.Message), nil)
		http.Error(w, "The message is "+err.Error()+".", http.StatusRequestEntityTooLarge)
	case errors.Is(err, transport.ErrNoMemory):
		s.events.Add("limit", "a request was "+err.Error(), nil)
		http.Error(w, "The message is "+err.Error()+".", http.StatusServiceUnavailable)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.events.Add("limit", fmt.Sprintf("a request's body was not in after %v", limits.Body), nil)
		http.Error(w, "The body took too long.", http.StatusRequestTimeout)
	default:
		http.Error(w, "The body cannot be read.", http.StatusBadRequest)
	}
	return body, false
}

// parseStrict parses a body and refuses an ambiguous one: the server might do something
// other than the record shows.
func (s *server) parseStrict(raw []byte) (envelope, *refusal) {
	env, err := parse(raw)
	switch {
	case errors.Is(err, jsonrpc.ErrNotJSON):
		s.events.Add("gap", "the agent sent what is not JSON", map[string]any{"bytes": len(raw)})
		return envelope{}, &refusal{status: http.StatusBadRequest, code: codeParse, text: "Parse error: the body is not JSON"}
	case err != nil:
		s.events.Add("gap", "the agent sent what is "+err.Error(), nil)
		return envelope{}, &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: "Invalid request: the body is " + err.Error()}
	case env.ambiguous():
		s.events.Add("gap", "the agent sent a message with a duplicate key, or a key in the wrong case", nil)
		return env, &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: "Invalid request: the envelope has a duplicate key, or a key in the wrong case"}
	case repeatsID(env):
		return env, &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: "Invalid request: two requests in the batch have the same id"}
	}
	return env, nil
}

func repeatsID(env envelope) bool {
	seen := map[string]bool{}
	for _, m := range env.of(request) {
		if seen[m.id.Key] {
			return true
		}
		seen[m.id.Key] = true
	}
	return false
}

// refuse answers a request that is not forwarded with an HTTP status, and records both.
func (s *server) refuse(w http.ResponseWriter, in inbound, no refusal) {
	why := evidence.SyntheticTransport
	if no.status == http.StatusNotFound {
		why = evidence.SyntheticExpired
	}
	answers := s.recordRefusal(in, s.unsent().record, why, func(m message) []byte { return errorResponse(m.id.Raw, no.code, no.text) })
	if fails(w, no.err) {
		return
	}
	if len(answers) != 1 {
		answers = [][]byte{errorResponse(nil, no.code, no.text)}
	}
	s.writeJSON(w, no.status, answers[0])
}

// refuseSpent answers and does not forward a message that exceeds the allowance.
func (s *server) refuseSpent(w http.ResponseWriter, in inbound, why string) {
	s.proxy.overspent.CompareAndSwap(nil, &why)
	s.events.Add("limit", why+"; it was refused", nil)
	record := s.unsent().record
	if !s.allowed.refused.take(1, int64(len(in.raw))) {
		record = func(evidence.Frame) {}
	}
	answers := s.recordRefusal(in, agentSide(record), evidence.SyntheticBudget, func(m message) []byte { return errorResponse(m.id.Raw, codeBudget, why) })
	if len(answers) == 0 {
		s.writeJSON(w, http.StatusTooManyRequests, errorResponse(nil, codeBudget, why))
		return
	}
	s.writeAnswers(w, in, answers)
}

// refuseHidden answers a call of a hidden tool as a server without that tool would.
func (s *server) refuseHidden(w http.ResponseWriter, in inbound, record func(evidence.Frame)) {
	answers := s.recordRefusal(in, agentSide(record), evidence.SyntheticHidden, func(m message) []byte {
		return errorResponse(m.id.Raw, codeInvalidParams, unknownTool(m.name))
	})
	if len(answers) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.writeAnswers(w, in, answers)
}

// recordRefusal records a message that is not forwarded, followed by the answer to each of
// its requests. It returns the answers.
func (s *server) recordRefusal(in inbound, record func(evidence.Frame), why evidence.Synthetic, answer func(message) []byte) (answers [][]byte) {
	s.refused.Lock()
	defer s.refused.Unlock()
	record(evidence.Frame{Dir: evidence.ToServer, Raw: in.raw, Peer: &in.peer, Fault: in.fault.name()})
	for _, m := range in.env.of(request) {
		raw := answer(m)
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
		answers = append(answers, raw)
	}
	return answers
}

// agentSide returns a function that records frames as seen only by the agent.
func agentSide(record func(evidence.Frame)) func(evidence.Frame) {
	return func(f evidence.Frame) {
		f.Side = evidence.SideAgent
		record(f)
	}
}

// writeAnswers sends the answers to the requests of in, as an array if in is a batch.
func (s *server) writeAnswers(w http.ResponseWriter, in inbound, answers [][]byte) {
	raw := answers[0]
	if in.env.batch {
		raw = batchOf(answers)
	}
	s.writeJSON(w, http.StatusOK, raw)
}

// batchOf joins messages into a batch.
func batchOf(messages [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(messages, []byte(",")), []byte("]"))
}

// batchSize returns the size of a batch in bytes.
func batchSize(messages [][]byte) int {
	size := len(messages) + 1
	for _, m := range messages {
		size += len(m)
	}
	return size
}

// unknownTool returns the error text for an unknown tool; 2025-11-25 server/tools, "Error
// Handling".
func unknownTool(name string) string { return "Unknown tool: " + strings.ToValidUTF8(name, "\uFFFD") }

func (s *server) writeJSON(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	s.write(w, status, raw)
}

// write sends a response with the headers that w has.
func (s *server) write(w http.ResponseWriter, status int, raw []byte) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.proxy.limits.Write))
	w.WriteHeader(status)
	if _, err := w.Write(raw); err == nil && control.Flush() == nil {
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// watchCalls reports the tool calls in a message to the recorder if that is a [Watcher],
// and returns a function that reports their end.
func (s *server) watchCalls(in inbound) (over func()) {
	watcher, ok := s.proxy.rec.(Watcher)
	if !ok || s.isOwn() {
		return func() {}
	}
	var under []func()
	for _, m := range in.env.of(request) {
		if m.method == methodCallTool {
			under = append(under, watcher.Called(s.Name, m.name))
		}
	}
	return func() {
		for _, over := range under {
			over()
		}
	}
}
