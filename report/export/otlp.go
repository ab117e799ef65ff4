package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

func init() { add(Format{Name: "otlp", Write: OTLP}) }

// SemanticConventions is the version of OpenTelemetry's semantic conventions for generative
// AI and MCP, which are in development and change between versions.
const SemanticConventions = "1.41.0"

const schemaURL = "https://opentelemetry.io/schemas/" + SemanticConventions

// maxRequest is the approximate size of a request in bytes. Collectors accept 20 MiB.
const maxRequest = 1 << 20

// maxName is the maximum length in bytes of an untrusted name.
const maxName = 200

// attributes are the attributes of a span, an event or a resource. Empty texts are omitted.
type attributes struct{ pcommon.Map }

func (a attributes) text(key, value string) {
	if value != "" {
		a.PutStr(key, cut(value))
	}
}

func attributesOf(of interface{ Attributes() pcommon.Map }) attributes {
	return attributes{of.Attributes()}
}

// span is a span with its attributes.
type span struct {
	ptrace.Span
	about attributes
}

// failed marks a span as failed with an error class.
func (s span) failed(class, message string) {
	s.about.text("error.type", class)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage(message)
}

// OTLP writes the spans of a run as OTLP JSON. Each line is a complete request to a collector, written by one
// call of Write. IDs are derived from the run's ID, so exporting again yields the same spans.
func OTLP(w io.Writer, run Run) error {
	t := tracer{w: w, run: run}
	t.begin()
	ended := run.Started
	for _, dir := range run.Trials {
		end, err := t.trial(dir)
		if err == nil {
			err = t.flushLarge()
		}
		if err != nil {
			return err
		}
		ended = latest(ended, end)
	}
	t.eval(latest(ended, run.Ended))
	return t.flush()
}

// tracer converts a run's evidence to spans.
type tracer struct {
	w       io.Writer
	run     Run
	traces  ptrace.Traces    // not yet written
	spans   ptrace.SpanSlice // of traces
	counted int              // number of spans included in size
	size    int              // total size of the counted spans, in bytes
}

// begin starts a request.
func (t *tracer) begin() {
	t.traces = ptrace.NewTraces()
	resource := t.traces.ResourceSpans().AppendEmpty()
	resource.SetSchemaUrl(schemaURL)
	about := attributesOf(resource.Resource())
	about.text("service.name", "waza")
	about.text("service.version", t.run.Waza)
	scope := resource.ScopeSpans().AppendEmpty()
	scope.SetSchemaUrl(schemaURL)
	scope.Scope().SetName("github.com/waza-isolate/waza")
	scope.Scope().SetVersion(t.run.Waza)
	t.spans, t.counted, t.size = scope.Spans(), 0, 0
}

// id returns 16 bytes that identify a part of the run.
func (t *tracer) id(of ...any) (id pcommon.TraceID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", append([]any{t.run.ID}, of...)))
	copy(id[:], sum[:])
	return id
}

func (t *tracer) spanID(of ...any) pcommon.SpanID {
	id := t.id(of...)
	return pcommon.SpanID(id[:8])
}

// span adds a span with the given parent. id identifies its subject.
func (t *tracer) span(name string, parent pcommon.SpanID, kind ptrace.SpanKind, start, end time.Time, id ...any) span {
	s := t.spans.AppendEmpty()
	s.SetTraceID(t.id())
	s.SetSpanID(t.spanID(id...))
	s.SetParentSpanID(parent)
	s.SetName(short(name))
	s.SetKind(kind)
	s.SetStartTimestamp(timestamp(start))
	s.SetEndTimestamp(timestamp(latest(start, end)))
	return span{s, attributesOf(s)}
}

// flushLarge writes a request once it has reached its maximum size.
func (t *tracer) flushLarge() error {
	for ; t.counted < t.spans.Len(); t.counted++ {
		t.size += (&ptrace.ProtoMarshaler{}).SpanSize(t.spans.At(t.counted))
	}
	if t.size < maxRequest {
		return nil
	}
	return t.flush()
}

// flush writes a request with the pending spans.
func (t *tracer) flush() error {
	if t.spans.Len() == 0 {
		return nil
	}
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(t.traces)
	if err == nil {
		_, err = t.w.Write(append(line, '\n'))
	}
	t.begin()
	return err
}

// eval adds the span of the run, the parent of the trials' spans.
func (t *tracer) eval(ended time.Time) {
	s := t.span("eval "+t.run.Results.EvalName, pcommon.SpanID{}, ptrace.SpanKindInternal, t.run.Started, ended, "eval")
	s.about.text("waza.eval.name", t.run.Results.EvalName)
	s.about.text("waza.eval.run_id", t.run.ID)
	s.about.text("waza.eval.skill", t.run.Results.Skill)
	s.about.text("waza.eval.engine", t.run.Results.Config.EngineType)
	s.about.PutBool("waza.eval.isolated", t.run.Isolated)
}

// trial adds the spans of a trial, and returns its end time.
func (t *tracer) trial(dir evidence.Dir) (ended time.Time, err error) {
	c, err := view.ReadConversation(dir)
	if err != nil {
		return ended, err
	}
	trial := c.Trial
	outcome, reason, message := trial.Outcome(c.Verdicts)
	start, end := agentTime(c)
	ended = latest(trial.Ended, end)
	s := t.span("trial "+trial.ID().String(), t.spanID("eval"), ptrace.SpanKindInternal, earliest(trial.Started, start), ended, trial.Task, trial.Number)
	s.about.text("waza.task.id", trial.Task)
	s.about.text("waza.task.name", trial.TaskName)
	s.about.PutInt("waza.trial.number", int64(trial.Number))
	s.about.PutInt("waza.trial.attempt", int64(trial.Attempt))
	s.about.text("waza.trial.outcome", string(outcome))
	s.about.text("waza.trial.reason", string(reason))
	if len(c.Verdicts.Verdicts) > 0 {
		s.about.PutDouble("waza.trial.score", c.Verdicts.Score)
	}
	if a := c.Verdicts.Attack; a != nil {
		s.about.text("waza.trial.attack", string(a.Result))
	}
	if outcome != evidence.ClassPass {
		s.failed(outcome.With(reason), t.only(message))
	}
	agent := t.agent(c, s.SpanID(), start, end)
	t.verdicts(c, agent)
	return ended, t.steps(c, agent.SpanID(), linksOf(dir, c))
}

// agentTime returns the time of a trial's agent, extended to that of its model turns and
// calls: the last response may be recorded just after the agent has exited.
func agentTime(c view.Conversation) (start, end time.Time) {
	start, end = c.Trial.AgentStart, c.Trial.AgentEnd
	if start.IsZero() {
		start = c.Trial.Started
	}
	if end.IsZero() {
		end = c.Trial.Ended
	}
	for _, step := range c.Steps {
		switch {
		case step.Turn != nil:
			start, end = earliest(start, step.Turn.Start), latest(latest(end, step.Turn.Start), step.Turn.End)
		case step.Call != nil:
			start, end = earliest(start, step.Call.Start), latest(latest(end, step.Call.Start), step.Call.End)
		}
	}
	return start, end
}

// earliest returns the earlier of two times, of which the second may be unknown.
func earliest(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// linksOf returns the trace contexts in the agent's calls, by call number. Unreadable ones
// are omitted.
func linksOf(dir evidence.Dir, c view.Conversation) map[int]link {
	links, calls := map[int]link{}, c.CallsByFrame()
	if len(calls) == 0 {
		return links
	}
	for frame, err := range dir.Frames() {
		if err != nil {
			break
		}
		for _, call := range calls[frame.Seq] {
			if to, ok := traceparent(frame.Raw, call.ID); ok && frame.Seq == call.RequestFrame {
				links[call.Seq] = to
			}
		}
	}
	return links
}

// only returns a text if contents are exported, and "" otherwise.
func (t *tracer) only(said string) string {
	if !t.run.Content {
		return ""
	}
	return cut(said)
}

// agent adds the span of a trial's agent.
func (t *tracer) agent(c view.Conversation, parent pcommon.SpanID, start, end time.Time) span {
	trial := c.Trial
	s := t.span("invoke_agent "+trial.Executor, parent, ptrace.SpanKindInternal, start, end, trial.Task, trial.Number, "agent")
	s.about.text("gen_ai.operation.name", "invoke_agent")
	s.about.text("gen_ai.agent.name", trial.Executor)
	s.about.text("gen_ai.request.model", short(t.run.Results.Config.ModelID))
	s.about.text("gen_ai.conversation.id", t.run.ID+"/"+trial.ID().String())
	if t.run.Content {
		s.about.messages("gen_ai.input.messages", genMessage{Role: "user", Parts: []genPart{textPart(trial.Prompt)}})
		s.about.messages("gen_ai.output.messages", genMessage{Role: "assistant", Parts: []genPart{textPart(trial.FinalOutput)}, Finish: "stop"})
	}
	if trial.Class != "" {
		s.failed(trial.Class.With(trial.Reason), t.only(trial.Message))
	}
	return s
}

// verdicts adds the verdicts on a trial to the span of its agent, as evaluation events.
func (t *tracer) verdicts(c view.Conversation, agent span) {
	for _, v := range c.Verdicts.Verdicts {
		event := agent.Events().AppendEmpty()
		event.SetName("gen_ai.evaluation.result")
		event.SetTimestamp(timestamp(c.Trial.Ended))
		about := attributesOf(event)
		about.text("gen_ai.evaluation.name", short(v.Name))
		about.text("gen_ai.evaluation.score.label", string(v.Result))
		if v.Result == evidence.VerdictError {
			about.text("error.type", "evidence")
		} else {
			about.PutDouble("gen_ai.evaluation.score.value", v.Score)
		}
		about.text("gen_ai.evaluation.explanation", t.only(v.Feedback))
		about.text("waza.grader.type", v.Type)
	}
}

// steps adds a span for each model turn and tool call that the runner observed. Entries that only the
// transcript has get no span, since their time is unknown.
func (t *tracer) steps(c view.Conversation, agent pcommon.SpanID, links map[int]link) error {
	transports := map[string]string{}
	for _, server := range c.Trial.Servers {
		transports[server.Name] = server.Transport
	}
	for _, step := range c.Steps {
		switch {
		case step.Turn != nil:
			t.turn(c, *step.Turn, agent)
		case step.Call != nil:
			s, err := t.call(c, *step.Call, agent)
			if err != nil {
				return err
			}
			if to, ok := links[step.Call.Seq]; ok {
				other := s.Links().AppendEmpty()
				other.SetTraceID(to.trace)
				other.SetSpanID(to.span)
			}
			s.about.text("network.transport", map[string]string{"stdio": "pipe", "http": "tcp", "sse": "tcp"}[transports[step.Call.Server]])
		}
		if err := t.flushLarge(); err != nil {
			return err
		}
	}
	return nil
}

// providers maps API dialects to the providers that define them. Other providers may offer
// these APIs too.
var providers = map[dialect.Name]string{
	dialect.Chat: "openai", dialect.Responses: "openai", dialect.Messages: "anthropic", dialect.Generate: "gcp.gen_ai",
}

func (t *tracer) turn(c view.Conversation, turn view.Turn, agent pcommon.SpanID) {
	s := t.span("chat "+turn.Model, agent, ptrace.SpanKindClient, turn.Start, turn.End, c.Trial.Task, c.Trial.Number, "turn", turn.Seq)
	s.about.text("gen_ai.operation.name", "chat")
	s.about.text("gen_ai.provider.name", providers[turn.Dialect])
	s.about.text("gen_ai.request.model", short(turn.Model))
	s.about.text("waza.provider", short(turn.Provider))
	s.about.PutInt("waza.turn.number", int64(turn.Seq))
	if u := turn.Usage; u != nil {
		s.about.PutInt("gen_ai.usage.input_tokens", u.Input)
		s.about.PutInt("gen_ai.usage.output_tokens", u.Output)
		s.about.PutInt("gen_ai.usage.cache_read.input_tokens", u.Cached)
	}
	if turn.Cost != nil {
		s.about.PutDouble("waza.cost_usd", *turn.Cost)
	}
	if turn.Outcome != evidence.ModelOK {
		class := turn.Outcome
		if turn.Outcome == evidence.ModelRefused && turn.Status > 0 {
			class = strconv.Itoa(turn.Status)
		}
		s.failed(class, t.only(turn.Problem))
	}
	if t.run.Content {
		answer := genMessage{Role: "assistant", Finish: "stop"}
		if turn.Text != "" {
			answer.Parts = append(answer.Parts, textPart(turn.Text))
		}
		for _, u := range turn.Uses {
			answer.Finish = "tool_call"
			answer.Parts = append(answer.Parts, genPart{Type: "tool_call", ID: short(u.ID), Name: short(u.Name), Arguments: object(u.Arguments)})
		}
		s.about.messages("gen_ai.output.messages", answer)
	}
}

func (t *tracer) call(c view.Conversation, call evidence.Call, agent pcommon.SpanID) (span, error) {
	end := call.End
	if end.IsZero() {
		end = c.Trial.AgentEnd
	}
	s := t.span("tools/call "+call.Tool, agent, ptrace.SpanKindClient, call.Start, end, c.Trial.Task, c.Trial.Number, "call", call.Seq)
	s.about.text("mcp.method.name", "tools/call")
	s.about.text("gen_ai.operation.name", "execute_tool")
	s.about.text("gen_ai.tool.name", short(call.Tool))
	s.about.text("gen_ai.tool.call.id", short(call.ToolUse))
	s.about.text("jsonrpc.request.id", short(cmp.Or(jsontext.Word(call.ID), string(call.ID))))
	s.about.text("waza.server", call.Server)
	s.about.PutInt("waza.call.number", int64(call.Seq))
	s.about.text("waza.call.outcome", string(call.Outcome))
	s.about.text("waza.call.origin", string(call.Origin))
	said := ""
	if t.run.Content {
		raw, err := call.Result.Raw()
		if err != nil {
			return s, err
		}
		said = cut(results.CallText(call, raw))
		s.about.text("gen_ai.tool.call.arguments", string(object(call.Arguments)))
		s.about.text("gen_ai.tool.call.result", string(raw))
	}
	if call.Outcome != evidence.OutcomeOK {
		class := string(call.Outcome)
		if code, ok := call.ErrorCode(); ok {
			class = strconv.FormatInt(code, 10)
			s.about.text("rpc.response.status_code", class)
		}
		s.failed(class, said)
	}
	return s, nil
}

// genMessage is a message in the form of the conventions, encoded as JSON in an attribute.
type genMessage struct {
	Role   string    `json:"role"`
	Parts  []genPart `json:"parts"`
	Finish string    `json:"finish_reason,omitempty"`
}

type genPart struct {
	Type      string          `json:"type"`
	Content   *string         `json:"content,omitempty"` // for a text
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

func textPart(s string) genPart { return genPart{Type: "text", Content: new(cut(s))} }

// messages adds messages as JSON. Their texts are limited.
func (a attributes) messages(key string, one genMessage) {
	if one.Parts == nil {
		one.Parts = []genPart{}
	}
	value, _ := evidence.Marshal([]genMessage{one}) // strings, and arguments that are valid JSON, always encode
	a.PutStr(key, string(value))
}

// link is the context of a span created by another program.
type link struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// traceparent returns the trace context (W3C Trace Context) in params._meta.traceparent of the request with
// the given ID in a frame or batch.
func traceparent(frame []byte, id json.RawMessage) (to link, ok bool) {
	wanted, isID := jsonrpc.ParseID(id)
	messages, _, err := jsonrpc.Split(frame)
	if err != nil || !isID {
		return to, false
	}
	var request jsonrpc.Message
	for _, one := range messages {
		if m, _ := jsonrpc.Read(one); m.ID.Key == wanted.Key {
			request = m
			break
		}
	}
	value := jsontext.Member(jsontext.Member(request.Params, "_meta"), "traceparent")
	if len(value) == 0 || value[0] != '"' || len(value) > maxName {
		return to, false
	}
	fields := strings.Split(jsontext.Word(value), "-")
	var version, flags [1]byte
	if len(fields) < 4 || !lowerHex(fields[0], version[:]) || version[0] == 0xff || version[0] == 0 && len(fields) > 4 ||
		!lowerHex(fields[1], to.trace[:]) || !lowerHex(fields[2], to.span[:]) || !lowerHex(fields[3], flags[:]) {
		return link{}, false
	}
	return to, !to.trace.IsEmpty() && !to.span.IsEmpty()
}

// lowerHex decodes lowercase hexadecimal digits into all of into. It returns false if s is invalid or has
// another length.
func lowerHex(s string, into []byte) bool {
	if len(s) != 2*len(into) || s != strings.ToLower(s) {
		return false
	}
	_, err := hex.Decode(into, []byte(s))
	return err == nil
}

func short(s string) string { return text.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxName) }

func timestamp(at time.Time) pcommon.Timestamp {
	if at.IsZero() {
		return 0
	}
	return pcommon.NewTimestampFromTime(at)
}
