package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Keys of _meta, 2026-07-28 basic/index.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

const (
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodListen     = "subscriptions/listen"
	methodProgress   = "notifications/progress"
	methodCancelled  = "notifications/cancelled"
)

// maxBatch is how many messages one batch may hold.
const maxBatch = 1024

var (
	errNotJSON    = errors.New("not JSON")
	errNotMessage = errors.New("not a JSON-RPC 2.0 message")
)

type kind uint8

const (
	request kind = iota + 1
	notification
	response
)

// id is a JSON-RPC id or a progress token: how it was written, and a key that is
// equal for equal ids. "1" and 1 have different keys. Both are copies.
type id struct {
	key string
	raw json.RawMessage
}

// message is what the proxy needs to know of one JSON-RPC message to route it.
// Where a key is given twice the last one counts, as most parsers have it.
type message struct {
	kind         kind
	id           id // of requests and responses; empty on an error for no request
	method       string
	name         string // params.name, else params.uri
	token        id     // the progress token asked for or reported on
	cancels      id     // params.requestId
	subscription id     // _meta's subscription id
	version      string // _meta's protocol version
	capabilities bool   // _meta has client capabilities
	errorCode    int    // of a response that is an error
	isError      bool
	injects      injections // what is to be added to the result, where it is a call
	// ambiguous is set where another parser could read the envelope otherwise:
	// a key of it twice, one that [jsontext.FoldKey] takes for it, or one that is broken.
	ambiguous bool
}

// envelope is one line or one HTTP body: a message, or a batch of them
// (2025-03-26 only).
type envelope struct {
	messages []message
	batch    bool
}

func (e envelope) of(k kind) []message {
	var found []message
	for _, m := range e.messages {
		if m.kind == k {
			found = append(found, m)
		}
	}
	return found
}

func (e envelope) ambiguous() bool {
	for _, m := range e.messages {
		if m.ambiguous {
			return true
		}
	}
	return false
}

// isInitialize says whether the envelope is a lone initialize request.
func (e envelope) isInitialize() bool {
	return !e.batch && e.messages[0].kind == request && e.messages[0].method == methodInitialize
}

// parse reads raw. It fails with errNotJSON or errNotMessage; what it returns
// else has at least one message.
func parse(raw []byte) (envelope, error) {
	if !json.Valid(raw) {
		return envelope{}, errNotJSON
	}
	value := jsontext.TrimSpace(raw)
	if value[0] != '[' {
		m, err := parseMessage(value)
		if err != nil {
			return envelope{}, err
		}
		return envelope{messages: []message{m}}, nil
	}
	batch := envelope{batch: true}
	for element := range jsontext.Elements(value) {
		if len(batch.messages) == maxBatch {
			return envelope{}, fmt.Errorf("%w: more than %d in one batch", errNotMessage, maxBatch)
		}
		m, err := parseMessage(element)
		if err != nil {
			return envelope{}, err
		}
		batch.messages = append(batch.messages, m)
	}
	if len(batch.messages) == 0 {
		return envelope{}, fmt.Errorf("%w: an empty batch", errNotMessage)
	}
	return batch, nil
}

// parseCost is more than what parse holds of raw: ids, names and versions are copies,
// and a batch has many.
func parseCost(raw []byte) int64 {
	size := int64(len(raw))
	if value := jsontext.TrimSpace(raw); size == 0 || len(value) == 0 || value[0] != '[' {
		return messageCost + min(3*size, 3*jsontext.Piece)
	}
	return min(size/smallestMessage+1, maxBatch)*messageCost + min(3*size, maxBatch*6*maxID)
}

// smallestMessage is fewer bytes than any message has in a batch.
const smallestMessage = 16

// fields are the members of a JSON-RPC envelope.
type fields struct {
	jsonrpc, id, method, params, result, err []byte
	ambiguous                                bool
}

func (f *fields) at(key string) *[]byte {
	switch key {
	case "jsonrpc":
		return &f.jsonrpc
	case "id":
		return &f.id
	case "method":
		return &f.method
	case "params":
		return &f.params
	case "result":
		return &f.result
	case "error":
		return &f.err
	}
	return nil
}

func readFields(object []byte) fields {
	var f fields
	for key, value := range jsontext.Members(object) {
		field := f.at(key)
		if field == nil {
			f.ambiguous = f.ambiguous || isBroken(key) || f.at(jsontext.FoldKey(key)) != nil
			continue
		}
		f.ambiguous = f.ambiguous || *field != nil
		*field = value
	}
	return f
}

// isBroken says whether text was not UTF-8. Some leave the bytes out that are not, and
// so read a word that is not there.
func isBroken(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

func parseMessage(object []byte) (message, error) {
	f := readFields(object)
	if jsontext.Word(f.jsonrpc) != "2.0" {
		return message{}, fmt.Errorf(`%w: no "jsonrpc": "2.0"`, errNotMessage)
	}
	m := message{ambiguous: f.ambiguous}
	var hasID bool
	m.id, hasID = parseID(f.id)
	switch {
	case f.method != nil:
		return parseCall(m, f, hasID)
	case f.result != nil && f.err != nil, f.result == nil && f.err == nil:
		return message{}, fmt.Errorf("%w: it needs a method, a result or an error", errNotMessage)
	case !hasID && (f.err == nil || f.id != nil && string(f.id) != "null"):
		return message{}, fmt.Errorf("%w: a response needs a string or number as id", errNotMessage)
	}
	m.kind = response
	if f.err != nil {
		m.isError = true
		m.errorCode = errorCode(f.err)
	}
	return m, nil
}

func parseCall(m message, f fields, hasID bool) (message, error) {
	m.method = jsontext.Word(f.method)
	switch {
	case m.method == "" || len(m.method) > maxID:
		return message{}, fmt.Errorf("%w: method is not a name", errNotMessage)
	case f.result != nil || f.err != nil:
		return message{}, fmt.Errorf("%w: both a call and a response", errNotMessage)
	case hasID:
		m.kind = request
	case f.id != nil:
		return message{}, fmt.Errorf("%w: an id is a string or a number, of 4 KiB at the most", errNotMessage)
	default:
		m.kind = notification
	}
	m.readParams(f.params)
	return m, nil
}

func (m *message) readParams(params []byte) {
	var name, uri string
	for key, value := range jsontext.Members(params) {
		switch key {
		case "name":
			name = jsontext.Word(value)
		case "uri":
			uri = jsontext.Word(value)
		case "requestId":
			m.cancels, _ = parseID(value)
		case "progressToken":
			if m.method == methodProgress {
				m.token, _ = parseID(value)
			}
		case "_meta":
			m.readMeta(value)
		}
	}
	m.name = name
	if name == "" {
		m.name = uri
	}
}

func (m *message) readMeta(meta []byte) {
	for key, value := range jsontext.Members(meta) {
		switch key {
		case "progressToken":
			if m.method != methodProgress {
				m.token, _ = parseID(value)
			}
		case metaVersion:
			m.version = jsontext.Word(value)
		case metaCapabilities:
			m.capabilities = true
		case metaSubscription:
			m.subscription, _ = parseID(value)
		}
	}
}

func errorCode(object []byte) int {
	code := 0
	for key, value := range jsontext.Members(object) {
		if key == "code" {
			code, _ = strconv.Atoi(string(value))
		}
	}
	return code
}

// maxID is how long an id and a method may be. They are kept for longer than their
// message is, and count for no memory.
const maxID = 4 << 10

// parseID says whether raw is a string or a number of up to maxID bytes. Numbers
// that are one integer written in two ways (1 and 1.0) are one id, since servers
// answer with the number and not with its text. The id keeps nothing of raw.
func parseID(raw []byte) (id, bool) {
	if len(raw) == 0 || len(raw) > maxID {
		return id{}, false
	}
	switch c := raw[0]; {
	case c == '"' && !defence.TypedIDs:
		return id{key: "n" + jsontext.Text(raw), raw: bytes.Clone(raw)}, true
	case c == '"':
		return id{key: "s" + jsontext.Text(raw), raw: bytes.Clone(raw)}, true
	case c == '-' || c >= '0' && c <= '9':
		return id{key: "n" + integerText(string(raw)), raw: bytes.Clone(raw)}, true
	}
	return id{}, false
}

func integerText(number string) string {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return number
	}
	return strconv.FormatInt(int64(f), 10)
}
