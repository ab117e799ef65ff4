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

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// SemanticConventions is the version of OpenTelemetry's semantic conventions for generative
// AI and MCP, which are in development and change between versions.
const SemanticConventions = "1.41.0"

const schemaURL = "https://opentelemetry.io/schemas/" + SemanticConventions

// maxRequest is the approximate size of a request in bytes. Collectors accept 20 MiB.
const maxRequest = 1 << 20

// maxName is the maximum length in bytes of an untrusted name.
const maxName = 200

// The types below represent OTLP in its JSON encoding as far as it is used: ids in
// hexadecimal, 64-bit integers as strings, enumerations as numbers.

type exportRequest struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
	SchemaURL  string       `json:"schemaUrl"`
}

type resource struct {
	Attributes attributes `json:"attributes"`
}

type scopeSpans struct {
	Scope     scope             `json:"scope"`
	Spans     []json.RawMessage `json:"spans"` // each is a span
	SchemaURL string            `json:"schemaUrl"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Kinds of spans, and the status of a failed one.
const (
	spanInternal = 1
	spanClient   = 3
	statusError  = 2
)

type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	ParentID   string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes attributes  `json:"attributes,omitempty"`
	Events     []spanEvent `json:"events,omitempty"`
	Links      []spanLink  `json:"links,omitempty"`
	Status     *spanStatus `json:"status,omitempty"`
}

type spanEvent struct {
	Time       string     `json:"timeUnixNano"`
	Name       string     `json:"name"`
	Attributes attributes `json:"attributes"`
}

type spanLink struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

type spanStatus struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code"`
}

// attributes holds typed attributes. Empty texts are omitted.
type attributes []attribute

type attribute struct {
	Key   string         `json:"key"`
	Value attributeValue `json:"value"`
}

type attributeValue struct {
	String *string  `json:"stringValue,omitempty"`
	Int    *string  `json:"intValue,omitempty"`
	Double *float64 `json:"doubleValue,omitempty"`
	Bool   *bool    `json:"boolValue,omitempty"`
}

func (a *attributes) text(key, value string) {
	if value != "" {
		value = cut(value)
		*a = append(*a, attribute{key, attributeValue{String: &value}})
	}
}

func (a *attributes) int(key string, value int64) {
	*a = append(*a, attribute{key, attributeValue{Int: new(strconv.FormatInt(value, 10))}})
}

func (a *attributes) double(key string, value float64) {
	*a = append(*a, attribute{key, attributeValue{Double: &value}})
}

func (a *attributes) bool(key string, value bool) {
	*a = append(*a, attribute{key, attributeValue{Bool: &value}})
}

// failed marks a span as failed with an error class.
func (s *span) failed(class, message string) {
	s.Attributes.text("error.type", class)
	s.Status = &spanStatus{message, statusError}
}

// OTLP returns a function that writes the spans of a run as OTLP JSON. Each line is a
// complete request to a collector, written with one call of Write. Ids are derived from the
// run's, so that exporting again yields the same spans. If content is set, prompts,
// responses, arguments, results and feedback of graders are included as far as they were
// recorded.
func OTLP(content bool) func(io.Writer, Run) error {
	return func(w io.Writer, run Run) error {
		t := tracer{w: w, run: run, content: content}
		ended := run.Started
		for _, dir := range run.Trials {
			end, err := t.trial(dir)
			if err != nil {
				return err
			}
			if end.After(ended) {
				ended = end
			}
		}
		if run.Ended.After(ended) {
			ended = run.Ended
		}
		if err := t.add(t.eval(ended)); err != nil {
			return err
		}
		return t.flush()
	}
}

// tracer converts a run's evidence to spans.
type tracer struct {
	w       io.Writer
	run     Run
	content bool
	spans   []json.RawMessage // not yet written
	size    int               // of these, in bytes
}

// id returns an id of n bytes for something in the run.
func (t *tracer) id(n int, of ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", append([]any{t.run.ID}, of...)))
	return hex.EncodeToString(sum[:n])
}

// span returns a span with the given parent. id identifies its subject.
func (t *tracer) span(name, parent string, kind int, start, end time.Time, id ...any) span {
	if end.Before(start) {
		end = start
	}
	return span{
		TraceID: t.id(16), SpanID: t.id(8, id...), ParentID: parent, Name: short(name), Kind: kind,
		Start: nanos(start), End: nanos(end),
	}
}

func (t *tracer) add(s span) error {
	raw, err := evidence.Marshal(s)
	if err != nil {
		return err
	}
	t.spans, t.size = append(t.spans, raw), t.size+len(raw)
	if t.size < maxRequest {
		return nil
	}
	return t.flush()
}

// flush writes a request with the pending spans.
func (t *tracer) flush() error {
	if len(t.spans) == 0 {
		return nil
	}
	var about attributes
	about.text("service.name", "waza")
	about.text("service.version", t.run.Waza)
	line, err := evidence.Marshal(exportRequest{[]resourceSpans{{
		Resource: resource{about}, SchemaURL: schemaURL,
		ScopeSpans: []scopeSpans{{scope{"github.com/waza-isolate/waza", t.run.Waza}, t.spans, schemaURL}},
	}}})
	if err != nil {
		return err
	}
	t.spans, t.size = nil, 0
	_, err = t.w.Write(append(line, '\n'))
	return err
}

// eval returns the span of the run, the parent of the trials' spans.
func (t *tracer) eval(ended time.Time) span {
	s := t.span("eval "+t.run.Results.EvalName, "", spanInternal, t.run.Started, ended, "eval")
	s.Attributes.text("waza.eval.name", t.run.Results.EvalName)
	s.Attributes.text("waza.eval.run_id", t.run.ID)
	s.Attributes.text("waza.eval.skill", t.run.Results.Skill)
	s.Attributes.text("waza.eval.engine", t.run.Results.Config.EngineType)
	s.Attributes.bool("waza.eval.isolated", t.run.Isolated)
	return s
}

// trial adds the spans of a trial, and returns its end time.
func (t *tracer) trial(dir evidence.Dir) (ended time.Time, err error) {
	c, err := view.ReadConversation(dir)
	if err != nil {
		return ended, err
	}
	links := linksOf(dir, c)
	trial := c.Trial
	outcome, reason, message := trial.Outcome(c.Verdicts)
	start, end := agentTime(c)
	ended = latest(trial.Ended, end)
	s := t.span("trial "+trialName(trial.Task, trial.Number), t.id(8, "eval"), spanInternal, earliest(trial.Started, start), ended, trial.Task, trial.Number)
	s.Attributes.text("waza.task.id", trial.Task)
	s.Attributes.text("waza.task.name", trial.TaskName)
	s.Attributes.int("waza.trial.number", int64(trial.Number))
	s.Attributes.int("waza.trial.attempt", int64(trial.Attempt))
	s.Attributes.text("waza.trial.outcome", string(outcome))
	s.Attributes.text("waza.trial.reason", string(reason))
	if len(c.Verdicts.Verdicts) > 0 {
		s.Attributes.double("waza.trial.score", c.Verdicts.Score)
	}
	if a := c.Verdicts.Attack; a != nil {
		s.Attributes.text("waza.trial.attack", string(a.Result))
	}
	if outcome != evidence.ClassPass {
		s.failed(outcome.With(reason), t.only(message))
	}
	agent := t.agent(c, s.SpanID, start, end)
	agent.Events = t.verdicts(c)
	for _, one := range []span{s, agent} {
		if err := t.add(one); err != nil {
			return ended, err
		}
	}
	return ended, t.steps(c, agent.SpanID, links)
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
func linksOf(dir evidence.Dir, c view.Conversation) map[int][]spanLink {
	links, calls := map[int][]spanLink{}, c.CallsByFrame()
	if len(calls) == 0 {
		return links
	}
	for frame, err := range dir.Frames() {
		if err != nil {
			break
		}
		for _, call := range calls[frame.Seq] {
			if trace, parent, ok := traceparent(frame.Raw, call.ID); ok && frame.Seq == call.RequestFrame {
				links[call.Seq] = []spanLink{{trace, parent}}
			}
		}
	}
	return links
}

// only returns a text if contents are exported, and "" otherwise.
func (t *tracer) only(said string) string {
	if !t.content {
		return ""
	}
	return cut(said)
}

// agent returns the span of a trial's agent.
func (t *tracer) agent(c view.Conversation, parent string, start, end time.Time) span {
	trial := c.Trial
	s := t.span("invoke_agent "+trial.Executor, parent, spanInternal, start, end, trial.Task, trial.Number, "agent")
	s.Attributes.text("gen_ai.operation.name", "invoke_agent")
	s.Attributes.text("gen_ai.agent.name", trial.Executor)
	s.Attributes.text("gen_ai.request.model", short(t.run.Results.Config.ModelID))
	s.Attributes.text("gen_ai.conversation.id", t.run.ID+"/"+trialName(trial.Task, trial.Number))
	if t.content {
		s.Attributes.messages("gen_ai.input.messages", genMessage{Role: "user", Parts: []genPart{textPart(trial.Prompt)}})
		s.Attributes.messages("gen_ai.output.messages", genMessage{Role: "assistant", Parts: []genPart{textPart(trial.FinalOutput)}, Finish: "stop"})
	}
	if trial.Class != "" {
		s.failed(trial.Class.With(trial.Reason), t.only(trial.Message))
	}
	return s
}

// verdicts returns the verdicts on a trial as evaluation events.
func (t *tracer) verdicts(c view.Conversation) (all []spanEvent) {
	for _, v := range c.Verdicts.Verdicts {
		var about attributes
		about.text("gen_ai.evaluation.name", short(v.Name))
		about.text("gen_ai.evaluation.score.label", string(v.Result))
		if v.Result == evidence.VerdictError {
			about.text("error.type", "evidence")
		} else {
			about.double("gen_ai.evaluation.score.value", v.Score)
		}
		about.text("gen_ai.evaluation.explanation", t.only(v.Feedback))
		about.text("waza.grader.type", v.Type)
		all = append(all, spanEvent{nanos(c.Trial.Ended), "gen_ai.evaluation.result", about})
	}
	return all
}

// steps adds a span for each model turn and tool call that the runner saw. Entries that
// only the transcript has have no time, and so no span.
func (t *tracer) steps(c view.Conversation, agent string, links map[int][]spanLink) error {
	transports := map[string]string{}
	for _, server := range c.Trial.Servers {
		transports[server.Name] = server.Transport
	}
	for _, step := range c.Steps {
		var s span
		var err error
		switch {
		case step.Turn != nil:
			s = t.turn(c, *step.Turn, agent)
		case step.Call != nil:
			s, err = t.call(c, *step.Call, agent)
			s.Links = links[step.Call.Seq]
			s.Attributes.text("network.transport", map[string]string{"stdio": "pipe", "http": "tcp", "sse": "tcp"}[transports[step.Call.Server]])
		default:
			continue
		}
		if err == nil {
			err = t.add(s)
		}
		if err != nil {
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

func (t *tracer) turn(c view.Conversation, turn view.Turn, agent string) span {
	s := t.span("chat "+turn.Model, agent, spanClient, turn.Start, turn.End, c.Trial.Task, c.Trial.Number, "turn", turn.Seq)
	s.Attributes.text("gen_ai.operation.name", "chat")
	s.Attributes.text("gen_ai.provider.name", providers[turn.Dialect])
	s.Attributes.text("gen_ai.request.model", short(turn.Model))
	s.Attributes.text("waza.provider", short(turn.Provider))
	s.Attributes.int("waza.turn.number", int64(turn.Seq))
	if u := turn.Usage; u != nil {
		s.Attributes.int("gen_ai.usage.input_tokens", u.Input)
		s.Attributes.int("gen_ai.usage.output_tokens", u.Output)
		s.Attributes.int("gen_ai.usage.cache_read.input_tokens", u.Cached)
	}
	if turn.Cost != nil {
		s.Attributes.double("waza.cost_usd", *turn.Cost)
	}
	if turn.Outcome != evidence.ModelOK {
		class := turn.Outcome
		if turn.Outcome == evidence.ModelRefused && turn.Status > 0 {
			class = strconv.Itoa(turn.Status)
		}
		s.failed(class, t.only(turn.Problem))
	}
	if t.content {
		answer := genMessage{Role: "assistant", Finish: "stop"}
		if turn.Text != "" {
			answer.Parts = append(answer.Parts, textPart(turn.Text))
		}
		for _, u := range turn.Uses {
			answer.Finish = "tool_call"
			answer.Parts = append(answer.Parts, genPart{Type: "tool_call", ID: short(u.ID), Name: short(u.Name), Arguments: object(u.Arguments)})
		}
		s.Attributes.messages("gen_ai.output.messages", answer)
	}
	return s
}

func (t *tracer) call(c view.Conversation, call evidence.Call, agent string) (span, error) {
	end := call.End
	if end.IsZero() {
		end = c.Trial.AgentEnd
	}
	s := t.span("tools/call "+call.Tool, agent, spanClient, call.Start, end, c.Trial.Task, c.Trial.Number, "call", call.Seq)
	s.Attributes.text("mcp.method.name", "tools/call")
	s.Attributes.text("gen_ai.operation.name", "execute_tool")
	s.Attributes.text("gen_ai.tool.name", short(call.Tool))
	s.Attributes.text("gen_ai.tool.call.id", short(call.ToolUse))
	s.Attributes.text("jsonrpc.request.id", short(cmp.Or(jsontext.Word(call.ID), string(call.ID))))
	s.Attributes.text("waza.server", call.Server)
	s.Attributes.int("waza.call.number", int64(call.Seq))
	s.Attributes.text("waza.call.outcome", string(call.Outcome))
	s.Attributes.text("waza.call.origin", string(call.Origin))
	said := ""
	if t.content {
		raw, err := call.Result.Raw()
		if err != nil {
			return s, err
		}
		said = cut(results.CallText(call, raw))
		s.Attributes.text("gen_ai.tool.call.arguments", string(object(call.Arguments)))
		s.Attributes.text("gen_ai.tool.call.result", string(raw))
	}
	if call.Outcome != evidence.OutcomeOK {
		class := string(call.Outcome)
		if code, ok := call.ErrorCode(); ok {
			class = strconv.FormatInt(code, 10)
			s.Attributes.text("rpc.response.status_code", class)
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
func (a *attributes) messages(key string, one genMessage) {
	if one.Parts == nil {
		one.Parts = []genPart{}
	}
	value, _ := evidence.Marshal([]genMessage{one}) // strings, and arguments that are valid JSON
	*a = append(*a, attribute{key, attributeValue{String: new(string(value))}})
}

// traceparent returns the trace context (W3C Trace Context) in the member traceparent of
// params._meta of the request with an id in a frame or batch.
func traceparent(frame []byte, id json.RawMessage) (trace, parent string, ok bool) {
	wanted, isID := jsonrpc.ParseID(id)
	messages, _, err := jsonrpc.Split(frame)
	if err != nil || !isID {
		return "", "", false
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
		return "", "", false
	}
	fields := strings.Split(jsontext.Word(value), "-")
	if len(fields) < 4 || !lowerHex(fields[0], 2) || fields[0] == "ff" || fields[0] == "00" && len(fields) > 4 ||
		!lowerHex(fields[1], 32) || !lowerHex(fields[2], 16) || !lowerHex(fields[3], 2) {
		return "", "", false
	}
	return fields[1], fields[2], strings.Trim(fields[1], "0") != "" && strings.Trim(fields[2], "0") != ""
}

func lowerHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

func short(s string) string { return text.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxName) }

func nanos(at time.Time) string {
	if at.IsZero() {
		return "0"
	}
	return strconv.FormatInt(at.UnixNano(), 10)
}
