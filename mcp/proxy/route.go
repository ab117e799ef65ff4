package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// receive records a line of the server's stdout and hands it to the stream it
// belongs to. A line that is no message is an event and goes nowhere, but counts. It fails where
// the server has sent all that it may.
func (l *link) receive(line []byte) error {
	if !l.bridge.allowed.heard.take(1, int64(len(line))) {
		return transport.ErrFlooded
	}
	env, err := parse(line)
	if err != nil {
		l.bridge.events.Add("stdout_noise", transport.Clip(line), map[string]any{"conn": l.conn, "bytes": len(line)})
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	answers := env.of(response)
	if err := l.bridge.keep(line, l.isAsked(env)); errors.Is(err, errAgentShare) {
		l.withhold(answers, err)
		return nil
	} else if err != nil {
		return err
	}
	var late *evidence.Frame
	record := l.record
	if l.isUnheard(answers) {
		late = &evidence.Frame{}
		record = func(f evidence.Frame) { l.recordUnheard(f, late) }
	}
	line = l.change(line, env, record)
	if len(answers) > 0 {
		l.routeAnswers(line, answers, late)
		return nil
	}
	l.route(line, env.messages[0])
	return nil
}

// isAsked says whether a line has nothing but answers that the agent asked for, whether it
// still waits for them or not.
func (l *link) isAsked(env envelope) bool {
	late := 0
	for _, m := range env.messages {
		if m.kind != response {
			return false
		}
		if l.pending[m.id.Key] == nil {
			late++
		}
	}
	if late > l.late {
		return false
	}
	l.late -= late
	return true
}

// withhold answers the agent in the place of a server whose answers cannot be recorded.
func (l *link) withhold(answers []message, why error) {
	for _, answer := range answers {
		if ex := l.pending[answer.id.Key]; ex != nil {
			l.settle(ex, answer.id.Key)
			l.answer(ex, answer.id, evidence.SyntheticBudget, codeBudget, why.Error(), len(ex.open) == 0)
		}
	}
}

// isUnheard says whether all calls that a message answers are left by the agent.
func (l *link) isUnheard(answers []message) bool {
	waited := false
	for _, answer := range answers {
		ex := l.pending[answer.id.Key]
		if ex == nil {
			continue
		}
		here := !ex.abandoned || !ex.detached && !ex.queue.isClosed()
		if here || l.asked(answer.id).method != methodCallTool {
			return false
		}
		waited = true
	}
	return waited
}

// recordUnheard records what the server alone has seen, and keeps what the agent gets should
// it come back.
func (l *link) recordUnheard(f evidence.Frame, late *evidence.Frame) {
	*late = f
	late.Side = evidence.SideAgent
	if f.Side != evidence.SideAgent {
		f.Side = evidence.SideServer
		l.record(f)
	}
}

// recordLate records, once, that the agent came back for an answer.
func (l *link) recordLate(late *evidence.Frame) {
	if late == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if late.Raw != nil {
		l.record(*late)
		late.Raw = nil
	}
}

// change records a line and returns what the agent gets in its place.
func (l *link) change(line []byte, env envelope, record func(evidence.Frame)) []byte {
	return l.bridge.change(line, env.batch, answers{
		lists:  func(key jsonrpc.ID) bool { return l.asked(key).method == methodListTools },
		called: func(key jsonrpc.ID) injections { return l.asked(key).injects },
	}, record)
}

// asked is the request in flight with an id; empty where there is none.
func (l *link) asked(key jsonrpc.ID) message {
	if ex := l.pending[key.Key]; ex != nil {
		for _, m := range ex.asked {
			if m.id.Key == key.Key {
				return m
			}
		}
	}
	return message{}
}

// routeAnswers hands line to the exchanges whose requests it answers. An answer
// that nobody waits for is recorded and goes nowhere: it is late, twice, or made
// up.
func (l *link) routeAnswers(line []byte, answers []message, late *evidence.Frame) {
	var touched []*exchange
	var status int
	var failed bool
	for _, answer := range answers {
		l.lateIDs.drop(answer.id.Key)
		ex := l.pending[answer.id.Key]
		if ex == nil {
			if answer.id.Key == "" && len(l.order) == 1 {
				touched = append(touched, l.order[0])
			}
			continue
		}
		if !slices.Contains(touched, ex) {
			touched = append(touched, ex)
		}
		status, failed = ex.status(l, answer), answer.isError
		l.learn(ex, line, answer)
		l.settle(ex, answer.id.Key)
	}
	for _, ex := range touched {
		l.deliver(ex, item{raw: line, last: len(ex.open) == 0, failed: failed, status: status, late: late})
	}
	l.wake()
}

// learn keeps the version that initialize agreed on, and which arguments of tools
// have headers.
func (l *link) learn(ex *exchange, line []byte, answer message) {
	if answer.isError || len(ex.asked) != 1 {
		return
	}
	switch {
	case ex.asked[0].method == methodInitialize:
		l.version = jsontext.Word(jsontext.Member(jsontext.Member(line, "result"), "protocolVersion"))
	case ex.asked[0].method == methodListTools && l.isShared():
		l.bridge.mirrors.learn(line)
	}
}

// deliver queues a message for the agent's stream. Where the queue is full the
// stream ends, as it would if the connection broke; the record has it all.
func (l *link) deliver(ex *exchange, it item) {
	switch {
	case ex.detached:
		ex.sending(it)
	case !ex.queue.push(it):
		l.overflow(ex)
	}
	if it.last {
		ex.queue.close()
		l.retire(ex)
	}
}

func (l *link) overflow(ex *exchange) {
	if ex.queue.isClosed() {
		return // the agent left
	}
	l.bridge.events.Add("limit", "the agent did not take its messages; its stream ends", map[string]any{"conn": l.conn})
	ex.queue.close()
}

// route hands on a notification, or a request of the server's, on exactly one
// stream. stdio does not tell which request it relates to, so the rule is:
//
//   - what names a request (progress token, subscription) goes to that request;
//   - what is about no request (lists that changed) goes to the session's own
//     stream where it is open;
//   - a request of the server's goes to the session's own stream, where it is open
//     and several requests are in flight: clients may drop their answer when the
//     stream that it came on ends;
//   - all else goes to the newest request in flight, and without one to the
//     session's own stream, where it waits until the agent opens it.
func (l *link) route(line []byte, m message) {
	if l.isShared() && m.method == methodCancelled {
		if ex := l.pending[m.cancels.Key]; ex != nil && ex.endless {
			l.giveUp(ex) // the server tears a subscription down: its stream closes
			ex.queue.close()
			return
		}
	}
	ex := l.target(m)
	switch {
	case ex != nil:
		l.deliver(ex, item{raw: line})
	case l.isShared():
		l.bridge.events.Add("undelivered", fmt.Sprintf("%q belongs to no request in flight", m.method),
			map[string]any{"conn": l.conn})
	case !l.own.queue.push(item{raw: line}):
		l.bridge.events.Add("limit", fmt.Sprintf("%q is dropped: too many messages wait for the agent", m.method),
			map[string]any{"conn": l.conn})
	}
}

// target is the exchange a message of the server's belongs to, nil for none.
func (l *link) target(m message) *exchange {
	if m.subscription.Key != "" {
		if ex := l.pending[m.subscription.Key]; ex != nil {
			return ex
		}
	}
	if m.kind == request && l.isShared() {
		return nil // 2026-07-28 has no requests to the client
	}
	if m.method == methodProgress {
		return l.progressing(m.token.Key)
	}
	if l.own.holder != nil && isAboutNoRequest(m.method) {
		return nil
	}
	var newest *exchange
	for _, ex := range slices.Backward(l.order) {
		switch {
		case !ex.streams || ex.endless || ex.detached || ex.queue.isClosed():
		case newest == nil:
			newest = ex
		case m.kind == request && l.own.holder != nil:
			return nil
		}
	}
	return newest
}

// progressing is the exchange that asked for progress under a token, nil where
// there is none or it takes no stream.
func (l *link) progressing(token string) *exchange {
	for _, ex := range l.order {
		if slices.Contains(ex.tokens, token) && ex.streams && !ex.queue.isClosed() {
			return ex
		}
	}
	return nil
}

// isAboutNoRequest says whether a notification is about the server's state.
func isAboutNoRequest(method string) bool {
	return method == "notifications/resources/updated" || strings.HasSuffix(method, "/list_changed")
}
