package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// receive records a line of the server's stdout and routes it to a stream. A line that is
// not a message counts against the allowance and is recorded as an event. It fails if the
// server has exceeded its allowance.
func (s *stdioSession) receive(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bridge.allowed.fromServer.take(1, int64(len(line))) {
		return transport.ErrFlooded
	}
	env, err := hear(line)
	if err != nil {
		s.bridge.events.Add("stdout_noise", transport.Clip(line), map[string]any{"conn": s.conn, "bytes": len(line)})
		s.lines.AddNoise(line)
		return nil
	}
	s.spoke = true
	claimed := s.claim(env)
	answers := env.of(response)
	var late *evidence.Frame
	record := s.record
	if s.isAbandoned(answers) {
		late = &evidence.Frame{}
		record = func(f evidence.Frame) { s.recordAbandoned(f, late) }
	}
	line = s.change(line, env, record)
	for _, id := range claimed {
		s.record(evidence.Frame{Dir: evidence.ToClient, Raw: errorResponse(id.Raw, codeTransport, "the server's error names no request"), Synthetic: evidence.SyntheticTransport})
	}
	if len(answers) > 0 {
		s.routeAnswers(line, answers, late)
		return nil
	}
	s.route(line, env.messages[0])
	return nil
}

// claim assigns request ids to answers that lack one: to an answer whose id is spelled as the other
// type, that of the matching request, and to an error without an id, that of the only request in
// flight. It returns the ids of requests that errors without an id end.
func (s *stdioSession) claim(env envelope) (ended []jsonrpc.ID) {
	for i := range env.messages {
		m := &env.messages[i]
		if m.kind != response || s.pending[m.id.Key] != nil {
			continue
		}
		twin := m.id.Twin()
		if ex := s.pending[twin]; ex != nil {
			m.id = ex.open[twin]
			continue
		}
		if m.id.Key == "" && m.errorCode != 0 && len(s.pending) == 1 {
			for key, ex := range s.pending {
				m.id = ex.open[key]
				ended = append(ended, m.id)
			}
		}
	}
	return ended
}

// isAbandoned reports whether the agent has abandoned all the calls that a message answers.
func (s *stdioSession) isAbandoned(answers []message) bool {
	waited := false
	for _, answer := range answers {
		ex := s.pending[answer.id.Key]
		if ex == nil {
			continue
		}
		here := !ex.abandoned || !ex.detached && !ex.queue.isClosed()
		if here || s.asked(answer.id).method != methodCallTool {
			return false
		}
		waited = true
	}
	return waited
}

// recordAbandoned records a message that the server sent and the agent did not receive. It
// sets late to the frame to record if the agent resumes the stream.
func (s *stdioSession) recordAbandoned(f evidence.Frame, late *evidence.Frame) {
	*late = f
	late.Side = evidence.SideAgent
	if f.Side != evidence.SideAgent {
		f.Side = evidence.SideServer
		s.record(f)
	}
}

// recordLate records, once, that the agent received an answer after resuming the stream.
func (s *stdioSession) recordLate(late *evidence.Frame) {
	if late == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if late.Raw != nil {
		s.record(*late)
		late.Raw = nil
	}
}

// change records a line, and returns the line for the agent.
func (s *stdioSession) change(line []byte, env envelope, record func(evidence.Frame)) []byte {
	var made *fault
	if answers := env.of(response); len(answers) == 1 {
		made = s.asked(answers[0].id).fault
	}
	return s.bridge.change(line, env.batch, answers{
		lists:  func(key jsonrpc.ID) bool { return s.asked(key).method == methodListTools },
		called: func(key jsonrpc.ID) injections { return s.asked(key).injects },
		fault:  made,
	}, record)
}

// asked returns the request in flight with an id, or else with its twin, or a zero message.
func (s *stdioSession) asked(id jsonrpc.ID) message {
	for _, key := range []string{id.Key, id.Twin()} {
		if ex := s.pending[key]; ex != nil {
			return ex.asked[slices.IndexFunc(ex.asked, func(m message) bool { return m.id.Key == key })]
		}
	}
	return message{}
}

// routeAnswers routes line to the exchanges whose requests it answers. An answer to no
// pending request is recorded but not forwarded.
func (s *stdioSession) routeAnswers(line []byte, answers []message, late *evidence.Frame) {
	var touched []*exchange
	var status int
	var failed bool
	for _, answer := range answers {
		s.lateIDs.drop(answer.id.Key)
		ex := s.pending[answer.id.Key]
		if ex == nil {
			continue
		}
		if !slices.Contains(touched, ex) {
			touched = append(touched, ex)
		}
		status, failed = ex.status(s, answer), answer.isError
		s.served = s.served || !failed
		s.learn(ex, line, answer)
		s.settle(ex, answer.id.Key)
	}
	for _, ex := range touched {
		s.deliver(ex, item{raw: line, last: len(ex.open) == 0, failed: failed, status: status, late: late})
	}
	s.wake()
}

// learn stores the protocol version negotiated by initialize, and the mirrored arguments in
// a tools/list result.
func (s *stdioSession) learn(ex *exchange, line []byte, answer message) {
	if answer.isError || len(ex.asked) != 1 {
		return
	}
	switch {
	case ex.asked[0].method == methodInitialize:
		s.version = jsontext.Word(jsontext.Member(jsontext.Member(line, "result"), "protocolVersion"))
	case ex.asked[0].method == methodListTools && s.isShared():
		s.bridge.mirrors.learn(line)
	}
}

// deliver queues a message on the agent's stream. If the queue is full the stream is
// closed, as if the connection broke; the message has been recorded already.
func (s *stdioSession) deliver(ex *exchange, it item) {
	switch {
	case ex.detached:
		ex.sending(it)
	case !ex.queue.push(it):
		s.overflow(ex)
	}
	if it.last {
		ex.queue.close()
		s.retire(ex)
	}
}

func (s *stdioSession) overflow(ex *exchange) {
	if ex.queue.isClosed() {
		return // the agent disconnected
	}
	s.note("limit", "the agent did not take its messages; its stream ends")
	ex.queue.close()
}

// route sends a notification or request from the server on exactly one stream. stdio does
// not show which request a message relates to, so these rules apply:
//
//   - A message that names a request (by progress token or subscription) goes to the stream
//     of that request.
//   - A message about the server's state (such as list_changed) goes to the session's own
//     stream if that is open.
//   - A request goes to the session's own stream if that is open and several requests are
//     in flight, since clients may drop their answer when the stream that carried it ends.
//   - Anything else goes to the newest request in flight; without one, it waits in the
//     session's own stream until the agent opens it.
func (s *stdioSession) route(line []byte, m message) {
	if s.isShared() && m.method == methodCancelled {
		if ex := s.pending[m.cancels.Key]; ex != nil && ex.endless {
			s.giveUp(ex) // the server ended a subscription: close its stream
			ex.queue.close()
			return
		}
	}
	ex := s.target(m)
	switch {
	case ex != nil:
		s.deliver(ex, item{raw: line})
	case s.isShared():
		s.note("undelivered", fmt.Sprintf("%q belongs to no request in flight", m.method))
	case !s.own.queue.push(item{raw: line}):
		s.note("limit", fmt.Sprintf("%q is dropped: too many messages wait for the agent", m.method))
	}
}

// target returns the exchange that a message from the server belongs to, or nil.
func (s *stdioSession) target(m message) *exchange {
	if m.subscription.Key != "" {
		if ex := s.pending[m.subscription.Key]; ex != nil {
			return ex
		}
	}
	if m.kind == request && s.isShared() {
		return nil // 2026-07-28 has no requests to the client
	}
	if m.method == methodProgress {
		return s.progressing(m.token.Key)
	}
	if s.own.holder != nil && isAboutNoRequest(m.method) {
		return nil
	}
	var newest *exchange
	for _, ex := range slices.Backward(s.order) {
		switch {
		case !ex.streams || ex.endless || ex.detached || ex.queue.isClosed():
		case newest == nil:
			newest = ex
		case m.kind == request && s.own.holder != nil:
			return nil
		}
	}
	return newest
}

// progressing returns the exchange that requested progress with a token, or nil if there is
// none or it does not accept a stream.
func (s *stdioSession) progressing(token string) *exchange {
	for _, ex := range s.order {
		if slices.Contains(ex.tokens, token) && ex.streams && !ex.queue.isClosed() {
			return ex
		}
	}
	return nil
}

// isAboutNoRequest reports whether a notification concerns the server's state rather than a
// request.
func isAboutNoRequest(method string) bool {
	return method == "notifications/resources/updated" || strings.HasSuffix(method, "/list_changed")
}
