package capture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// call is a tool call whose frames are being read. It is also used for reads, with the name
// in the Tool field.
type call struct {
	evidence.Call
	method     string
	waiting    bool     // waiting for the client to retry with input
	asTask     bool     // the request asks to run as a task (2025-11-25)
	ended      int64    // frame that ended it; 0 if there is none
	expired    bool     // its session had expired
	unnamed    func()   // settles the call by an error without an ID that may be meant for it; nil if there is none
	named      string   // the ID of the tool use, as sent by the client
	namedMarks []string // names of secrets in the name that a read asks for
	early      bool     // no list recorded before it says whether the tool exists
}

func (k *call) note(f evidence.Frame, kind string) { k.noteWhy(f, kind, "") }

// wrong notes the error in the answer to k.
func (k *call) wrong(f evidence.Frame, what error) { k.noteWhy(f, NoteMalformed, what.Error()) }

func (k *call) noteWhy(f evidence.Frame, kind, why string) {
	note := fmt.Sprintf("%s: frame %d", kind, f.Seq)
	if why != "" {
		note += ": " + why
	}
	k.Notes = append(k.Notes, note)
}

// Wrong returns the error in the answer to a call, as recorded in its notes, or "".
func Wrong(c evidence.Call) string {
	answer := fmt.Sprintf(": frame %d: ", c.ResponseFrame)
	for _, note := range slices.Backward(c.Notes) {
		if _, why, ok := strings.Cut(note, answer); ok {
			return why
		}
	}
	return ""
}

func (k *call) end(f evidence.Frame, outcome evidence.Outcome) {
	k.Outcome, k.End, k.waiting, k.ended = outcome, f.Time, false, f.Seq
}

// round identifies a call that waits for the client to retry it. The retry has the parameters of the call,
// and the state that the server sent.
type round struct {
	server, conn                   string // conn is empty for a retry on any conversation
	method, tool, arguments, state string
}

// call returns the call or read that a request belongs to: one that waits for the request as a retry, or a
// new one.
func (c *collector) call(f evidence.Frame, m jsonrpc.Message) *call {
	params, ok := members(m.Params)
	k := c.retried(f, m.Method, params)
	if k == nil {
		k = &call{method: m.Method, Call: evidence.Call{
			Server: f.Server, Conn: f.Conn, ID: bytes.Clone(m.ID.Raw),
			Tool: jsontext.Text(params[nameKey(m.Method)]), Arguments: bytes.Clone(arguments(params)),
			Start: f.Time, RequestFrame: f.Seq, Fault: f.Fault, Marks: secret.Within(f.Raw, f.Spans, "params", "arguments"),
		}}
		_, k.asTask = params["task"]
		k.named = namedUse(params)
		k.namedMarks = marked(secret.Within(f.Raw, f.Spans, "params"), nameKey(m.Method))
		c.keep(f, k)
		if isRetry(params) {
			k.note(f, NoteRoundUnknown)
		}
	}
	if !ok || k.Tool == "" {
		k.note(f, NoteMalformed)
	}
	if key, as := folded(params, "name", "arguments"); defence.FoldedKeys && as != "" && m.Method == methodCallTool {
		c.gap(f, fmt.Sprintf("key %q, which some parsers read as %q", key, as))
	}
	k.oddities(f, m)
	return k
}

// settle records the answer to k.
func (c *collector) settle(f evidence.Frame, m jsonrpc.Message, k *call) {
	k.oddities(f, m)
	if m.Odd != nil {
		k.wrong(f, m.Odd)
	}
	k.ResponseFrame, k.Result, k.Error = f.Seq, f.Result(m.Result), bytes.Clone(m.Error)
	k.ResultMarks, k.Fault = secret.Names(f.Spans), cmp.Or(k.Fault, f.Fault)
	switch {
	case f.Synthetic == evidence.SyntheticTimeout:
		k.end(f, evidence.OutcomeTimeout)
	case f.Synthetic != "" && !slices.Contains(asServer, f.Synthetic):
		k.expired = f.Synthetic == evidence.SyntheticExpired
		k.end(f, evidence.OutcomeTransportError)
	case m.Error != nil, m.Result == nil:
		k.end(f, evidence.OutcomeProtocolError)
	default:
		c.settleResult(f, m.Result, k)
	}
}

// asServer are answers by the proxy that clients take for the server's.
var asServer = []evidence.Synthetic{evidence.SyntheticHidden, evidence.SyntheticBudget, evidence.SyntheticFault}

func (c *collector) settleResult(f evidence.Frame, result json.RawMessage, k *call) {
	fields, ok := members(result)
	switch {
	case !ok:
		k.wrong(f, errors.New("its result is not an object"))
	case defence.OneMeaning && jsontext.Repeats(result, "isError", "resultType", "content", "structuredContent"):
		k.wrong(f, errors.New("a key of its result comes twice"))
		ok = false
	}
	if !ok {
		k.end(f, evidence.OutcomeProtocolError)
		return
	}
	if _, as := folded(fields, "isError", "resultType"); as != "" {
		k.note(f, NoteMalformed)
	}
	if jsontext.Text(fields["resultType"]) == "input_required" && !c.session[connID{k.Server, k.Conn}] {
		k.Rounds++
		k.End, k.waiting = f.Time, true
		for _, one := range jsontext.Members(fields["inputRequests"]) {
			if m, err := jsonrpc.Read(one); err == nil {
				c.serverRequest(f, m)
			}
		}
		c.await(k, fields)
		return
	}
	if _, ok := fields["task"]; ok && k.asTask {
		c.gap(f, "the call runs as a task, whose result is not followed")
	}
	switch string(fields["isError"]) {
	case "", "false":
		k.end(f, evidence.OutcomeOK)
	case "true":
		k.end(f, evidence.OutcomeToolError)
	default: // a client that validates results rejects this one
		k.noteWhy(f, NoteInvalidResult, "its isError is not a boolean")
		k.end(f, evidence.OutcomeProtocolError)
	}
}

// await records that k waits for a retry by the client (2026-07-28, multi round-trip requests).
func (c *collector) await(k *call, result map[string]json.RawMessage) {
	for _, r := range rounds(k.Server, k.Conn, k.method, k.Tool, k.Arguments, result["requestState"]) {
		c.rounds[r] = append(c.rounds[r], k)
	}
}

// retried returns the call that a request continues, or nil.
func (c *collector) retried(f evidence.Frame, method string, params map[string]json.RawMessage) *call {
	if !isRetry(params) {
		return nil
	}
	for _, r := range rounds(f.Server, f.Conn, method, jsontext.Text(params[nameKey(method)]), arguments(params), params["requestState"]) {
		queue := c.rounds[r]
		i := slices.IndexFunc(queue, func(k *call) bool { return k.waiting })
		if i < 0 {
			delete(c.rounds, r)
			continue
		}
		c.rounds[r] = queue[i+1:]
		k := queue[i]
		k.waiting, k.Outcome, k.ended = false, "", 0
		return k
	}
	return nil
}

func isRetry(params map[string]json.RawMessage) bool {
	return params["inputResponses"] != nil || params["requestState"] != nil
}

// rounds returns the keys of a waiting call: first for its own conversation, then for any conversation with
// its server. Without sessions, a retry may arrive on another connection.
func rounds(server, conn, method, tool string, arguments, state json.RawMessage) []round {
	argumentsForm, _ := jsontext.Canonical(arguments)
	stateForm, _ := jsontext.Canonical(state)
	return []round{
		{server, conn, method, tool, argumentsForm, stateForm},
		{server, "", method, tool, argumentsForm, stateForm},
	}
}

// marked returns the names of secrets that may be in a member.
func marked(marks map[string][]string, member string) []string {
	return slices.Concat(marks[member], marks[""])
}

// likeness is the same for calls of one tool with equal arguments.
type likeness struct {
	server, tool string
	arguments    [sha256.Size]byte // digest of their canonical form
}

// maxArguments is the maximum size, in bytes, of arguments that are compared by value and validated.
const maxArguments = 1 << 20

// keep adds a new call or read. For calls it uses the catalog at the time of the first request.
func (c *collector) keep(f evidence.Frame, k *call) {
	if k.method != methodCallTool {
		c.reads = append(c.reads, k)
		return
	}
	c.calls = append(c.calls, k)
	k.Seq = len(c.calls)
	// Larger arguments are compared as text, and not validated.
	var value any
	form := string(k.Arguments)
	if len(k.Arguments) <= maxArguments {
		value, _ = jsontext.Parse(k.Arguments) // they are valid JSON
		form = jsontext.Form(value)
	}
	like := likeness{k.Server, k.Tool, sha256.Sum256([]byte(form + marksForm(k.Marks)))}
	if k.SameAs = c.first[like]; k.SameAs == 0 {
		c.first[like] = k.Seq
	}
	c.lookUp(f, k, value)
}

// lookUp looks up the tool of k in the catalog of its server. It does nothing if the tool's name may be
// redacted.
func (c *collector) lookUp(f evidence.Frame, k *call, arguments any) {
	if f.RedactedEnvelope {
		return
	}
	listed := c.catalog(f)
	tool, sure := listed.find(c.conversationOf(f), k.Tool, c.blind)
	if sure {
		k.Known = new(tool != nil)
	}
	if tool == nil {
		k.early = !sure
		return
	}
	k.ReadOnly = tool.readOnly
	switch {
	case f.Redacted > 0 && len(f.Spans) == 0 || len(k.Marks) > 0 || tool.redacted:
		k.unchecked("a secret was taken out of the arguments or the schema")
	case len(k.Arguments) > maxArguments:
		k.unchecked("the arguments are too large")
	default:
		found := listed.schemas.Check(tool.tool.InputSchema, arguments)
		if found.Unknown != "" {
			k.unchecked(found.Unknown)
			return
		}
		k.Valid, k.Invalid = new(found.Valid), found.Misfits
		for _, why := range found.Unchecked {
			k.unchecked(why)
		}
	}
}

// marksForm returns a text that distinguishes redacted arguments from arguments that contain the same
// asterisks, and from those with other secrets.
func marksForm(marks map[string][]string) string {
	if len(marks) == 0 {
		return ""
	}
	return "\x00" + jsontext.Encode(marks)
}

// hindsight sets ReadOnly of a call made before its tool was listed, from the first list that has the tool.
func (c *collector) hindsight(k *call) {
	if !k.early {
		return
	}
	if t := c.tools[k.Server].index[k.Tool]; t != nil && !t.hidden {
		k.ReadOnly = t.hint
	}
}

func (k *call) unchecked(why string) { k.Notes = append(k.Notes, NoteUnchecked+": "+why) }

// arguments returns the arguments of a request, which default to an empty object.
func arguments(params map[string]json.RawMessage) json.RawMessage {
	if given, ok := params["arguments"]; ok {
		return given
	}
	return json.RawMessage("{}")
}

// doubt explains why a server may parse the agent's message differently, or returns "".
func doubt(m jsonrpc.Message) string {
	name := jsontext.Text(jsontext.Member(m.Params, nameKey(m.Method)))
	switch {
	case m.Repeated:
		return "a key of its envelope comes twice"
	case !utf8.Valid(m.Raw):
		return "it is not UTF-8"
	case strings.Contains(m.Method, "\x00"), strings.Contains(name, "\x00"):
		return "a NUL is in its method or in the name of what it asks for, where some end a text"
	case isAsked(m) && duplicateKeys(m.Params):
		return "a key of its parameters comes twice"
	case isAsked(m) && !namesByText(m):
		return "the name of what it asks for is not a string, and some make a string of any value"
	}
	return ""
}

// namesByText reports whether a request names its target by a string, or not at all. Parameters in a list have
// no names.
func namesByText(m jsonrpc.Message) bool {
	params, ok := members(m.Params)
	name := params[nameKey(m.Method)]
	return len(name) == 0 && (ok || len(m.Params) == 0) || len(name) > 0 && name[0] == '"'
}

// isAsked reports whether a message requests a tool call or a read.
func isAsked(m jsonrpc.Message) bool {
	switch m.Method {
	case methodCallTool, methodReadResource, methodGetPrompt:
		return true
	}
	return false
}

// oddities notes parts of a message that parsers may read differently.
func (k *call) oddities(f evidence.Frame, m jsonrpc.Message) {
	if !errors.Is(m.Odd, jsonrpc.ErrNotJSON) && duplicateKeys(m.Raw) {
		k.note(f, NoteDuplicateKey)
	}
	if !utf8.Valid(m.Raw) {
		k.noteWhy(f, NoteMalformed, "it is not UTF-8")
	}
}

const (
	methodCallTool     = "tools/call"
	methodReadResource = "resources/read"
	methodGetPrompt    = "prompts/get"
)

// Kinds of reads.
const (
	ReadResource = "resource"
	ReadPrompt   = "prompt"
)

// Read is a request for a resource or a prompt.
type Read struct {
	Kind         string // ReadResource or ReadPrompt
	Server       string
	Name         string // the resource's URI, or the prompt's name
	Outcome      evidence.Outcome
	RequestFrame int64
	Marks        []string // names of secrets that were replaced in Name
}

// ServerRequest is a server's request to its client, sent as a message or as required input for a request of
// the client.
type ServerRequest struct {
	Kind   string // of [input.Kinds]
	Server string
	Frame  int64
}

// repeat notes calls that a client repeated in another session. If the server had expired the session, the
// call becomes cancelled: the protocol tells clients to make it again, so only the last such call counts. A
// call that failed because its transport ended is noted only if the client sent the same tool use ID with
// both calls.
func repeat(calls []*call) {
	last := map[int]*call{} // keyed by the number of the first of the calls that are alike
	for _, k := range slices.Backward(calls) {
		first := cmp.Or(k.SameAs, k.Seq)
		again := last[first]
		lost := k.Outcome == evidence.OutcomeTransportError && again != nil && k.named != "" && k.named == again.named
		if again != nil && again.Conn != k.Conn && (k.expired || lost) {
			k.Notes = append(k.Notes, fmt.Sprintf("%s: made again as call %d", NoteExpired, again.Seq))
			if k.expired {
				k.Outcome = evidence.OutcomeCancelled
			}
		}
		if !k.expired {
			last[first] = k
		}
	}
}

// isRepeated reports whether repeat noted that the call was repeated.
func isRepeated(c evidence.Call) bool {
	return slices.ContainsFunc(c.Notes, func(note string) bool { return strings.HasPrefix(note, NoteExpired) })
}

// Superseded reports whether a call was refused because its session had expired, and the client made it again
// in another session. Only the later call counts.
func Superseded(c evidence.Call) bool {
	return c.Outcome == evidence.OutcomeCancelled && isRepeated(c)
}

func (k *call) read() Read {
	kind := ReadResource
	if k.method == methodGetPrompt {
		kind = ReadPrompt
	}
	return Read{Kind: kind, Server: k.Server, Name: k.Tool, Outcome: k.Outcome, RequestFrame: k.RequestFrame, Marks: k.namedMarks}
}

// nameKey returns the parameter that names the target of a request.
func nameKey(method string) string {
	if method == methodReadResource {
		return "uri"
	}
	return "name"
}

// Incidents lists the incidents in calls, in the order in which they began; see [evidence.Call.Incident].
// calls are all of a trial's, or all to some servers. An incident is the list of its calls, in order. The
// first one failed, and the last one succeeded if the agent recovered.
func Incidents(calls []evidence.Call) [][]evidence.Call {
	var incidents [][]evidence.Call
	known := map[int]int{} // indexes in incidents, by the incident's number
	for _, call := range calls {
		if call.Incident == 0 {
			continue
		}
		at, ok := known[call.Incident]
		if !ok {
			at = len(incidents)
			known[call.Incident] = at
			incidents = append(incidents, nil)
		}
		incidents[at] = append(incidents[at], call)
	}
	return incidents
}

// numberIncidents numbers the incidents in a trial's calls, whose outcomes are set.
//
// A call follows a failure only if it was made after the failed response. So calls that
// fail in parallel are one incident, and a parallel success does not end it. A call that
// the client gave up is neither a failure nor a success.
func numberIncidents(calls []*call) {
	type name struct{ server, tool string }
	type incident struct {
		number int
		known  int64 // frame that ended its first failure; 0 if there is none yet
	}
	count := 0
	open := map[name]*incident{}
	for _, k := range calls {
		n := name{k.Server, k.Tool}
		at := open[n]
		failed := k.Outcome.Failed()
		switch follows := at != nil && at.known > 0 && k.RequestFrame > at.known; {
		case at == nil && failed:
			count++
			at = &incident{number: count}
			open[n] = at
		case !follows && !failed:
			continue
		}
		k.Incident = at.number
		if failed && k.ended > 0 && (at.known == 0 || k.ended < at.known) {
			at.known = k.ended
		}
		if k.Outcome == evidence.OutcomeOK {
			delete(open, n)
		}
	}
}
