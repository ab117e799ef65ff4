package proxy

import (
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Keys of _meta, 2026-07-28 basic/index.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

const (
	methodInitialize = "initialize"
	methodListen     = "subscriptions/listen"
	methodProgress   = "notifications/progress"
	methodCancelled  = "notifications/cancelled"
)

type kind uint8

const (
	request kind = iota + 1
	notification
	response
)

// message holds what the proxy needs to route one JSON-RPC message. The last of duplicate
// keys counts, as in most parsers.
type message struct {
	kind         kind
	id           jsonrpc.ID // of a request or response; empty in an error that belongs to no request
	method       string
	name         string     // params.name, or else params.uri
	token        jsonrpc.ID // the progress token requested or reported on
	cancels      jsonrpc.ID // params.requestId
	subscription jsonrpc.ID // _meta's subscription id
	version      string     // _meta's protocol version
	capabilities bool       // _meta has client capabilities
	errorCode    int        // of an error response
	isError      bool
	injects      injections // for the result, if this is a call
	fault        *fault     // likewise; nil for none
	ambiguous    bool       // another parser may read the envelope differently
}

// envelope is one line or HTTP body: a message or a batch (2025-03-26 only).
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

// isInitialize reports whether the envelope is a single initialize request.
func (e envelope) isInitialize() bool {
	return !e.batch && e.messages[0].kind == request && e.messages[0].method == methodInitialize
}

// parse parses what an agent sent into an envelope with at least one message. It returns the errors of
// [jsonrpc.Parse].
func parse(raw []byte) (envelope, error) {
	all, batch, err := jsonrpc.Parse(raw)
	return envelopeOf(all, batch), err
}

func envelopeOf(all []jsonrpc.Message, batch bool) envelope {
	e := envelope{batch: batch, messages: make([]message, len(all))}
	for i, read := range all {
		e.messages[i] = messageOf(read)
	}
	return e
}

// hear parses what a server sent, as [jsonrpc.Hear] does.
func hear(raw []byte) (envelope, error) {
	all, batch, err := jsonrpc.Hear(raw)
	return envelopeOf(all, batch), err
}

func messageOf(read jsonrpc.Message) message {
	m := message{kind: response, id: read.ID, method: read.Method, ambiguous: read.Repeated || read.Misread != nil}
	switch {
	case read.IsRequest():
		m.kind = request
	case read.Method != "":
		m.kind = notification
	case read.Result == nil:
		m.isError, m.errorCode = true, jsonrpc.Code(read.Error)
	}
	if read.Method != "" {
		m.readParams(read.Params)
	}
	return m
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
			m.cancels, _ = jsonrpc.ParseID(value)
		case "progressToken":
			if m.method == methodProgress {
				m.token, _ = jsonrpc.ParseID(value)
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
				m.token, _ = jsonrpc.ParseID(value)
			}
		case metaVersion:
			m.version = jsontext.Word(value)
		case metaCapabilities:
			m.capabilities = true
		case metaSubscription:
			m.subscription, _ = jsonrpc.ParseID(value)
		}
	}
}
