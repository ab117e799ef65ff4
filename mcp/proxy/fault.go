package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// fault is a fault in one call of the agent. A nil fault has no effect.
//
// Some faults keep the call from the server. Others hide the server's answer from the agent; the
// record then has the answer as seen only by the server, followed by what the agent got instead.
type fault struct {
	*cassette.Fault
	conversation
	id        jsonrpc.ID // of the call
	stateless bool       // the protocol revision has no sessions
	made      time.Time

	got   atomic.Pointer[hidden] // the server's answer if it is hidden from the agent; nil before it arrives
	ended atomic.Bool            // the response to the call has ended; a later answer on another stream is not changed
}

// hidden is the answer that the agent would have got without the fault.
type hidden struct {
	raw      []byte
	injected []int
}

// faultOf returns the fault for a message of the agent, and records it as an event. Calls in a
// batch get none.
func faultOf(in inbound, c conversation, stateless bool) *fault {
	s := c.server
	if s.Fault == nil || in.env.batch || len(in.env.messages) != 1 {
		return nil
	}
	call := in.env.messages[0]
	if call.kind != request || call.method != methodCallTool {
		return nil
	}
	chosen := s.Fault(jsontext.Member(in.raw, "params"))
	if chosen == nil {
		return nil
	}
	tool := transport.Clip([]byte(call.name))
	s.events.Add(evidence.EventFault, fmt.Sprintf("waza made the fault %s of a call of %s", chosen.Kind, tool),
		map[string]any{"fault": string(chosen.Kind), "tool": tool, "conn": c.conn})
	return &fault{Fault: chosen, conversation: c, id: call.id, stateless: stateless, made: time.Now()}
}

// name returns the kind for a frame.
func (f *fault) name() evidence.FaultKind {
	if f == nil {
		return ""
	}
	return f.Kind
}

// refuses reports whether the call is kept from the server.
func (f *fault) refuses() bool { return !f.name().ReachesServer() }

// hides reports whether the server's answer is hidden from the agent or changed.
func (f *fault) hides() bool {
	switch f.name() {
	case evidence.FaultDrop, evidence.FaultTruncate, evidence.FaultInvalid, evidence.FaultWrongID, evidence.FaultLate, evidence.FaultChanged:
		return !f.ended.Load()
	}
	return false
}

// answered keeps a hidden answer of the server.
func (f *fault) answered(raw []byte, injected []int) {
	f.got.Store(&hidden{bytes.Clone(raw), injected})
}

// refuse answers a call in place of the server. kill ends the server's process.
func (f *fault) refuse(w http.ResponseWriter, in inbound, kill func(context.Context)) {
	s, why := f.server, evidence.SyntheticFault
	raw := errorResponse(f.id.Raw, codeInternal, cmp.Or(f.Message, "Internal error"))
	switch f.Kind {
	case evidence.FaultToolError:
		raw = f.toolError()
	case evidence.FaultKill:
		kill(in.ctx)
		why, raw = evidence.SyntheticTransport, errorResponse(f.id.Raw, codeTransport, fmt.Sprintf("server %q was ended by SIGKILL", s.Name))
	}
	s.writeAnswers(w, in, s.recordRefusal(in, agentSide(f.record), why, func(message) []byte { return raw }))
}

// toolError returns a result that is an error.
func (f *fault) toolError() []byte {
	text, _ := json.Marshal(cmp.Or(f.Message, "The tool failed: internal error"))
	kind := ""
	if f.stateless {
		kind = `"resultType":"complete",`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{%s"content":[{"type":"text","text":%s}],"isError":true}}`, f.id.Raw, kind, text)
}

// keepBack delays a call that is to reach the server later.
func (f *fault) keepBack(ctx context.Context) {
	if f.name() == evidence.FaultDelay {
		_ = retry.Sleep(ctx, f.Delay(cassette.DefaultDelay))
	}
}

// begin returns the writer for the response to the call. over must be called when the call has been
// answered, and may end the connection.
func (f *fault) begin(w http.ResponseWriter, in inbound) (_ http.ResponseWriter, over func()) {
	if f == nil {
		return w, func() {}
	}
	out := &faultyWriter{ResponseWriter: w, fault: f, in: in}
	return out, out.over
}

// faultyWriter is the response to a call with a fault. It discards everything from the server's
// answer on; then over sends the agent something else.
type faultyWriter struct {
	http.ResponseWriter
	fault *fault
	in    inbound
	begun bool // the headers are sent
}

// takes reports whether written bytes are discarded.
func (w *faultyWriter) takes() bool { return w.fault.hides() && w.fault.got.Load() != nil }

// Unwrap is for [http.ResponseController].
func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *faultyWriter) WriteHeader(status int) {
	if !w.takes() {
		w.begun = true
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	switch {
	case w.takes():
		return len(p), nil
	case w.fault.Kind == evidence.FaultSlow && len(p) > 0 && p[0] != ':': // a colon begins a comment
		return w.slowly(p)
	}
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// FlushError is for [http.ResponseController].
func (w *faultyWriter) FlushError() error {
	if w.takes() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// pieces is the number of pieces in which a slow answer is sent.
const pieces = 20

func (w *faultyWriter) slowly(p []byte) (n int, err error) {
	control, limit := http.NewResponseController(w.ResponseWriter), w.fault.server.proxy.limits.Write
	for i := range pieces {
		if err := retry.Sleep(w.in.ctx, w.fault.Delay(cassette.DefaultDelay)/pieces); err != nil {
			return n, err
		}
		_ = control.SetWriteDeadline(time.Now().Add(limit))
		written, err := w.ResponseWriter.Write(p[n : len(p)*(i+1)/pieces])
		if n += written; err != nil {
			return n, err
		}
		if err := control.Flush(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// over sends the agent the replacement of the server's answer.
func (w *faultyWriter) over() {
	f := w.fault
	f.ended.Store(true)
	got := f.got.Load()
	if got == nil {
		return
	}
	w.Header().Del("Content-Length") // of the server's answer
	switch f.Kind {
	case evidence.FaultDrop:
		f.lost("the connection ended without an answer")
		panic(http.ErrAbortHandler)
	case evidence.FaultTruncate:
		f.lost("the connection ended within the answer")
		w.sendHalf(got.raw)
		panic(http.ErrAbortHandler)
	case evidence.FaultInvalid:
		f.lost("the answer was not JSON")
		w.send(got.raw[:len(got.raw)/2])
	case evidence.FaultWrongID:
		f.lost("the answer had the id of another request")
		w.send(otherID(got.raw, f.id))
	case evidence.FaultLate:
		w.sendLate()
	case evidence.FaultChanged:
		messages := [][]byte{[]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`), got.raw}
		if !w.in.accepts.stream {
			messages = messages[1:]
		} else {
			f.toAgent(evidence.Frame{Raw: messages[0], Synthetic: evidence.SyntheticFault})
		}
		f.toAgent(evidence.Frame{Raw: got.raw, Injected: got.injected})
		w.send(messages...)
	}
}

// toAgent records a message that only the agent gets.
func (f *fault) toAgent(frame evidence.Frame) {
	frame.Dir = evidence.ToClient
	agentSide(f.record)(frame)
}

// lost records that the agent got no answer.
func (f *fault) lost(why string) {
	f.toAgent(evidence.Frame{Raw: errorResponse(f.id.Raw, codeTransport, why), Synthetic: evidence.SyntheticTransport})
}

// sendLate waits until the call has timed out, and then answers as if the server had not.
func (w *faultyWriter) sendLate() {
	f, s := w.fault, w.fault.server
	limit := f.Delay(s.Timeout)
	wait := time.NewTimer(time.Until(f.made.Add(limit)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-w.in.ctx.Done():
		agentSide(f.record)(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(f.id, reasonLeft), Synthetic: evidence.SyntheticAbandoned})
		return
	case <-s.part.serving.Done():
	}
	raw := errorResponse(f.id.Raw, codeTimeout, fmt.Sprintf("server %q did not answer within %v", s.Name, limit))
	f.toAgent(evidence.Frame{Raw: raw, Synthetic: evidence.SyntheticTimeout})
	w.send(raw)
}

// streams reports whether the headers of an event stream are sent.
func (w *faultyWriter) streams() bool {
	return w.begun && strings.HasPrefix(w.Header().Get("Content-Type"), sse.ContentType)
}

// send answers with messages, as events if there are several or the response is a stream.
func (w *faultyWriter) send(messages ...[]byte) {
	s := w.fault.server
	switch {
	case !w.begun && len(messages) == 1:
		s.writeJSON(w.ResponseWriter, http.StatusOK, messages[0])
		return
	case w.begun && !w.streams():
		_, _ = w.ResponseWriter.Write(bytes.Join(messages, []byte("\n")))
		return
	}
	stream := openStream(w.ResponseWriter, s.proxy.limits.Write)
	stream.sent = w.begun
	defer stream.close()
	for _, raw := range messages {
		stream.message("", raw)
	}
}

// sendHalf sends the first half of an answer.
func (w *faultyWriter) sendHalf(raw []byte) {
	out := w.ResponseWriter
	if w.streams() {
		var event bytes.Buffer
		_, _ = sse.Message{Type: "message", Data: raw}.WriteTo(&event) // it never fails
		raw = event.Bytes()
	}
	if !w.begun {
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	_, _ = out.Write(raw[:len(raw)/2]) // fails if the agent has left
	_ = http.NewResponseController(out).Flush()
}

// otherID returns an answer with an id that belongs to no request.
func otherID(raw []byte, id jsonrpc.ID) []byte {
	other := []byte(`"another"`)
	if n, err := strconv.ParseInt(string(id.Raw), 10, 64); err == nil && n < maxID {
		other = strconv.AppendInt(nil, n+maxID, 10)
	}
	for key, value := range jsontext.Members(raw) {
		if key == "id" {
			at := spanOf(raw, value)
			at.text = other
			return applyEdits(raw, []edit{at})
		}
	}
	return raw
}
