package capture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// connID identifies one client's conversation with one server.
type connID struct{ server, conn string }

// requestID identifies a client's request. Servers' requests have IDs of their own.
type requestID struct {
	connID
	key string
}

// request is a request that may get a response.
type request struct {
	call   *call  // for a tools/call or a read
	list   bool   // it is a tools/list
	cursor string // requested page; empty for the first
	frame  int64
	again  string // kind of note for another response; empty before the first
	late   bool   // the server answered after the client had disconnected
}

// note adds a note to the request's call, if it is one.
func (r *request) note(f evidence.Frame, kind string) {
	if r.call != nil {
		r.call.note(f, kind)
	}
}

func (r *request) isAbandoned() bool {
	return r.call != nil && r.call.Outcome == evidence.OutcomeAbandoned
}

// collector holds the state of reading frames.
type collector struct {
	calls   []*call
	reads   []*call
	asked   []ServerRequest
	first   map[likeness]int         // number of the first of the calls that are alike
	open    map[requestID][]*request // unanswered, oldest first
	closed  map[requestID]*request   // the last one that ended
	rounds  map[round][]*call        // calls that wait for the client's input
	session map[connID]bool          // conversations opened by initialize, which have no rounds
	tools   map[string]*catalog
	blind   int64 // last missing frame, which may have been a list from any server
	gaps    []Gap
}

func newCollector() *collector {
	return &collector{
		first:   map[likeness]int{},
		open:    map[requestID][]*request{},
		closed:  map[requestID]*request{},
		rounds:  map[round][]*call{},
		session: map[connID]bool{},
		tools:   map[string]*catalog{},
	}
}

func (c *collector) gap(f evidence.Frame, why string) {
	if f.Dir == evidence.ToClient {
		c.catalog(f).blind = f.Seq // it may have been a list
	}
	c.gaps = append(c.gaps, Gap{Server: f.Server, Frame: f.Seq, Why: why, OfAgent: f.Dir == evidence.ToServer})
}

func (c *collector) frame(f evidence.Frame) {
	fromServer := f.Dir == evidence.ToClient
	switch {
	case f.RedactedEnvelope && fromServer: // servers make no calls, and an answer without its ID matches nothing
		c.noise(f)
	case f.RedactedEnvelope:
		c.gap(f, fmt.Sprintf("waza removed %s from its id, its method or its tool's name", secret.Describe(envelopeNames(f))))
	}
	switch {
	case f.Truncated > 0:
		c.gap(f, fmt.Sprintf("%d bytes of it were not kept", f.Truncated))
	case !fromServer && f.Dir != evidence.ToServer:
		c.gap(f, fmt.Sprintf("direction %q", f.Dir))
	case f.Synthetic != "" && len(f.Raw) == 0:
		c.broken(f)
	case fromServer:
		c.heard(f)
	default:
		c.sent(f)
	}
}

// sent reads a message of the agent. A message that cannot be read is recorded as a gap, since it may be a
// call.
func (c *collector) sent(f evidence.Frame) {
	if tooMany(f) {
		c.gap(f, fmt.Sprintf("it has more than %d values", jsontext.MaxValues))
		return
	}
	batch, _, err := jsonrpc.Split(f.Raw)
	if err != nil {
		c.gap(f, err.Error())
		return
	}
	for _, raw := range batch {
		m, err := jsonrpc.Read(raw)
		if err = cmp.Or(m.Misread, err); err != nil {
			c.gap(f, err.Error())
			continue
		}
		if why := doubt(m); defence.OneMeaning && why != "" {
			c.gap(f, why)
		}
		c.message(f, m)
	}
}

// heard reads a message of a server. A message that cannot be read is no gap, since it is not a call and no
// client accepts it as an answer: the call that it should have answered has no reply.
func (c *collector) heard(f evidence.Frame) {
	if tooMany(f) {
		c.noise(f)
		return
	}
	messages, _, err := jsonrpc.Hear(f.Raw)
	if err != nil {
		c.noise(f)
		return
	}
	for _, m := range messages {
		if m.Method != "" && (m.Repeated || m.Misread != nil) || m.Odd != nil && m.ID.Key == "" {
			c.noise(f)
		}
		c.message(f, m)
	}
}

// noise takes a message of a server whose meaning is uncertain. A client may have read it as a list.
func (c *collector) noise(f evidence.Frame) { c.catalog(f).blind = f.Seq }

// envelopeNames returns the names of the secrets in a message's id, method or tool. It returns none for
// frames of older runs, which have no spans.
func envelopeNames(f evidence.Frame) []string {
	all := secret.Within(f.Raw, f.Spans)
	return slices.Concat(marked(all, "id"), marked(all, "method"), secret.Within(f.Raw, f.Spans, "params")["name"])
}

// tooMany reports whether a message has too many values to be parsed.
func tooMany(f evidence.Frame) bool {
	return defence.FewValues && jsontext.MoreThan(jsontext.MaxValues, f.Raw)
}

func (c *collector) message(f evidence.Frame, m jsonrpc.Message) {
	toServer, asks := f.Dir == evidence.ToServer, m.Method != ""
	switch {
	case f.Side == evidence.SideServer:
		c.kept(f, m)
	case defence.Cancellation && toServer && m.Method == "notifications/cancelled":
		c.cancel(f, m)
	case toServer && asks:
		c.request(f, m)
	case !toServer && !asks && m.ID.Key == "" && f.Synthetic != "":
		c.broken(f)
	case (!toServer || !defence.OwnAnswers) && !asks:
		c.answer(f, m)
	case !toServer && m.Method == "notifications/tools/list_changed" && f.Synthetic != "": // sent by the proxy: the server's list has not changed
	case !toServer && m.Method == "notifications/tools/list_changed":
		c.catalog(f).blind = f.Seq
	case !toServer && m.IsRequest():
		c.serverRequest(f, m)
	}
	// Ignore everything else: a server's other notifications, and the answers to its requests.
}

// serverRequest records a request of a server to its client.
func (c *collector) serverRequest(f evidence.Frame, m jsonrpc.Message) {
	if kind := input.KindOf(m.Method); kind != "" {
		c.asked = append(c.asked, ServerRequest{Kind: kind, Server: f.Server, Frame: f.Seq})
	}
}

func (c *collector) request(f evidence.Frame, m jsonrpc.Message) {
	r := &request{list: m.Method == "tools/list", frame: f.Seq}
	switch m.Method {
	case "initialize":
		c.session[connID{f.Server, f.Conn}] = true
	case "tools/call":
		if m.ID.Key == "" {
			c.gap(f, "a tools/call without an id: whether it ran is not known")
			return
		}
		r.call = c.call(f, m)
	case "tools/list":
		params, _ := members(m.Params) // without params, the list begins at its first page
		r.cursor = jsontext.Text(params["cursor"])
	case methodReadResource, methodGetPrompt:
		if m.ID.Key != "" {
			r.call = c.call(f, m)
		}
	}
	if m.ID.Key == "" {
		return
	}
	id := requestID{connID{f.Server, f.Conn}, m.ID.Key}
	if len(c.open[id]) > 0 {
		r.note(f, NoteIDReused)
	}
	c.open[id] = append(c.open[id], r)
}

func (c *collector) answer(f evidence.Frame, m jsonrpc.Message) {
	conn := connID{f.Server, f.Conn}
	id := requestID{conn, m.ID.Key}
	if twin := (requestID{conn, m.ID.Twin()}); len(c.open[id]) == 0 && len(c.open[twin]) > 0 {
		id, m.Result, m.Error = twin, nil, nil
		m.Odd = errOtherType
	}
	if m.ID.Key == "" && m.Error != nil {
		c.unnamed(f, m)
		return
	}
	if !defence.OwnConversation && len(c.open[id]) == 0 {
		for other := range c.open {
			if other.key == m.ID.Key {
				id, f.Server, f.Conn = other, other.server, other.conn
			}
		}
	}
	r := c.close(id, NoteDuplicateResponse)
	if r == nil {
		r = c.regained(f, c.closed[id])
	}
	if !defence.FirstAnswer && r == nil && f.Synthetic == "" {
		r = c.closed[id]
	}
	if r == nil {
		if last := c.closed[id]; last != nil && f.Synthetic == "" {
			last.note(f, last.again)
		}
		return
	}
	if f.Synthetic != "" {
		r.again = NoteLateResponse
	}
	if r.call != nil {
		c.settle(f, m, r.call)
		return
	}
	if m.Odd != nil && m.Result == nil && m.Error == nil {
		c.noise(f)
	}
	if r.list {
		c.list(f, r, m.Result)
	}
}

var errOtherType = errors.New("its id is of another type than the request's")

// unnamed keeps an error without an ID for the only open call of its conversation. No client accepts it as an
// answer, since it may be the response to another HTTP request, such as a GET. But if the call gets no
// answer, it explains why.
func (c *collector) unnamed(f evidence.Frame, m jsonrpc.Message) {
	var only *request
	for id, queue := range c.open {
		switch {
		case id.connID != connID{f.Server, f.Conn}:
		case only != nil || len(queue) > 1:
			return
		default:
			only = queue[0]
		}
	}
	if only != nil && only.call != nil {
		m.Raw, m.Error, f.Raw = bytes.Clone(m.Raw), bytes.Clone(m.Error), nil
		only.call.unnamed = func() { c.settle(f, m, only.call) }
	}
}

// regained returns last, the latest request with an ID, if its client had disconnected and has now
// reconnected to receive the response f. Otherwise it returns nil.
func (c *collector) regained(f evidence.Frame, last *request) *request {
	if last == nil || !last.isAbandoned() || f.Synthetic != "" || last.late && f.Side != evidence.SideAgent {
		return nil
	}
	last.again = NoteDuplicateResponse
	return last
}

// lateResponse notes a response that arrived after the client disconnected.
func (c *collector) lateResponse(f evidence.Frame, last *request) {
	if last != nil && last.isAbandoned() {
		last.note(f, last.again)
		last.late = true
	}
}

// cancel ends a request that the client cancelled or abandoned, or that timed out in the proxy.
func (c *collector) cancel(f evidence.Frame, m jsonrpc.Message) {
	params, _ := members(m.Params) // empty unless an object
	cancelled, ok := jsonrpc.ParseID(params["requestId"])
	if !ok {
		return
	}
	id := requestID{connID{f.Server, f.Conn}, cancelled.Key}
	if open := c.open[id]; f.Synthetic == evidence.SyntheticAbandoned && len(open) > 0 && open[0].call == nil {
		return // the client may reconnect to get the answer
	}
	r := c.close(id, NoteLateResponse)
	if r != nil && r.call != nil {
		outcome := evidence.OutcomeCancelled
		switch f.Synthetic {
		case evidence.SyntheticTimeout:
			outcome = evidence.OutcomeTimeout
		case evidence.SyntheticAbandoned:
			outcome = evidence.OutcomeAbandoned
		}
		r.call.end(f, outcome)
	}
}

// broken ends all requests of a conversation whose server is gone.
func (c *collector) broken(f evidence.Frame) {
	if f.Synthetic != evidence.SyntheticTransport {
		c.gap(f, fmt.Sprintf("%s of no request that is named", f.Synthetic))
		return
	}
	conn := connID{f.Server, f.Conn}
	for id := range c.open {
		if id.connID != conn {
			continue
		}
		for r := c.close(id, NoteLateResponse); r != nil; r = c.close(id, NoteLateResponse) {
			if r.call != nil {
				r.call.end(f, evidence.OutcomeTransportError)
			}
		}
	}
}

// close removes and returns the oldest open request with an ID, or nil. Another answer to the request gets
// the note again.
func (c *collector) close(id requestID, again string) *request {
	queue := c.open[id]
	if len(queue) == 0 {
		return nil
	}
	r := queue[0]
	if c.open[id] = queue[1:]; len(queue) == 1 {
		delete(c.open, id)
	}
	r.again = again
	c.closed[id] = r
	return r
}

func (c *collector) finish() Result {
	for _, k := range slices.Concat(c.calls, c.reads) {
		switch {
		case k.waiting:
			k.Outcome = evidence.OutcomeCancelled
			k.Notes = append(k.Notes, NoteRoundAbandoned)
		case k.unnamed != nil && !k.expired && (k.Outcome == "" || k.Outcome == evidence.OutcomeTransportError):
			k.unnamed()
		case k.Outcome == "":
			k.Outcome = evidence.OutcomeTransportError
		}
	}
	repeat(c.calls)
	numberIncidents(c.calls)
	result := Result{Catalogs: []evidence.Catalog{}, Requests: c.asked, Gaps: c.gaps, Named: map[int]string{}}
	result.Calls = slices.Grow(result.Calls, len(c.calls))
	for _, k := range c.calls {
		c.hindsight(k)
		result.Calls = append(result.Calls, k.Call)
		if k.named != "" {
			result.Named[k.Seq] = k.named
		}
	}
	for _, k := range c.reads {
		result.Reads = append(result.Reads, k.read())
	}
	for _, server := range slices.Sorted(maps.Keys(c.tools)) {
		if known := c.tools[server]; len(known.conversations) > 0 || len(known.tools) > 0 {
			result.Catalogs = append(result.Catalogs, known.record(server))
		}
	}
	return result
}

// version is a tool as an entry of a list describes it.
type version struct {
	tool     evidence.Tool // without information from other frames
	sum      [sha256.Size]byte
	readOnly *bool
	redacted bool // a secret in the message was redacted
}

func (v *version) name() string { return v.tool.Name }

// page is a part of a list.
type page struct {
	tools []json.RawMessage
	next  string // cursor of the next page
	last  bool   // there is no next page
	ok    bool
}

// pageOf reads a tools/list result.
func pageOf(result json.RawMessage) page {
	var p page
	fields, ok := members(result)
	if !ok || jsontext.Unmarshal(fields["tools"], &p.tools) != nil {
		return page{}
	}
	p.ok = true
	p.next = jsontext.Text(fields["nextCursor"])
	switch string(fields["nextCursor"]) {
	case "", "null", `""`: // clients treat all three as the end
		p.last = true
	}
	return p
}

// version parses an entry of a list, unless the same bytes were parsed before. It returns
// nil if the entry is not a tool.
func (k *catalog) version(f evidence.Frame, raw json.RawMessage) *version {
	sum := sha256.Sum256(raw)
	if v := k.bytes[sum]; v != nil {
		return v
	}
	fields, _ := members(raw) // empty unless an object
	name := jsontext.Text(fields["name"])
	if name == "" {
		return nil
	}
	digest, _ := jsontext.Digest(raw)
	return &version{
		tool: evidence.Tool{
			Name: name, Description: jsontext.Text(fields["description"]),
			InputSchema: bytes.Clone(fields["inputSchema"]), Annotations: bytes.Clone(fields["annotations"]),
			Digest: digest,
		},
		sum: sum, readOnly: readOnlyHint(fields["annotations"]), redacted: f.Redacted > 0,
	}
}

// readOnlyHint returns the hint, or nil unless it is a boolean.
func readOnlyHint(annotations json.RawMessage) *bool {
	fields, _ := members(annotations) // empty unless an object
	switch string(fields["readOnlyHint"]) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}
