// Package jsonrpc reads JSON-RPC 2.0 messages of MCP: the kind of a message, its id, and
// its raw params, result or error. All code reads messages through this package, so that
// proxy, evidence and graders agree on which response belongs to which request:
//
//   - ids are equal if they have the same type and exactly the same value;
//   - keys are case-sensitive;
//   - the last of duplicate keys counts, and the message reports the duplicate.
//
// The package also writes the project's own requests and responses. It knows no methods.
// Messages of others are forwarded as received and never re-encoded.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// MaxBatch is the maximum number of messages in a batch.
const MaxBatch = 1024

// MaxName is the maximum length of an id or method in bytes.
const MaxName = 4 << 10

var (
	ErrNotJSON    = errors.New("not JSON")
	ErrNotMessage = errors.New("not a JSON-RPC 2.0 message")
)

// ID is a request id or a progress token. The zero ID stands for none.
type ID struct {
	Key string          // equal for equal ids; not empty
	Raw json.RawMessage // copy of the raw JSON
}

// ParseID parses an id, which must be a string or a number of up to [MaxName] bytes.
// Different notations of a number (1 and 1.0) are the same id, since servers may answer
// with another notation.
func ParseID(raw []byte) (ID, bool) {
	if len(raw) == 0 || len(raw) > MaxName {
		return ID{}, false
	}
	key := make([]byte, 0, 32)
	switch c := raw[0]; {
	case c == '"' && !defence.TypedIDs && jsontext.Valid([]byte(jsontext.Text(raw))):
		key = jsontext.AppendNumberForm(append(key, 'n'), jsontext.Text(raw))
	case c == '"':
		key = append(append(key, 's'), jsontext.Text(raw)...)
	case c == '-' || c >= '0' && c <= '9':
		key = jsontext.AppendNumberForm(append(key, 'n'), string(raw))
	default:
		return ID{}, false
	}
	return ID{Key: string(key), Raw: bytes.Clone(raw)}, true
}

// Message is one message. Its slices, except those of ID, refer to the bytes from which it
// was read.
type Message struct {
	Raw    json.RawMessage
	ID     ID     // zero if absent, null, or of an invalid type
	Method string // empty for a response

	Params, Result, Error json.RawMessage // nil if absent

	// Repeated reports whether the envelope has a duplicate key.
	Repeated bool
	// Misread describes a key that some parsers would read as a key of the envelope: those
	// that ignore case, end strings at a NUL, or drop invalid UTF-8. It is nil if there is
	// none.
	Misread error

	version, method, id []byte // raw values
}

// Split returns the messages of a batch (2025-03-26), or raw alone if it is not a batch.
func Split(raw []byte) (messages [][]byte, batch bool, err error) {
	if !jsontext.Valid(raw) {
		var value json.RawMessage
		return nil, false, fmt.Errorf("%w: %w", ErrNotJSON, jsontext.Unmarshal(raw, &value))
	}
	value := jsontext.TrimSpace(raw)
	if value[0] != '[' {
		return [][]byte{value}, false, nil
	}
	for element := range jsontext.Elements(value) {
		if len(messages) == MaxBatch {
			return nil, true, fmt.Errorf("%w: more than %d messages in one batch", ErrNotMessage, MaxBatch)
		}
		messages = append(messages, element)
	}
	if len(messages) == 0 {
		return nil, true, fmt.Errorf("%w: an empty batch", ErrNotMessage)
	}
	return messages, true, nil
}

// Read reads one message of valid JSON leniently, with or without a version. Its errors
// wrap [ErrNotMessage]; the message is returned as far as it was read.
func Read(object []byte) (Message, error) {
	m := Message{Raw: object}
	for key, value := range jsontext.Members(object) {
		field := m.at(key)
		if field == nil {
			m.suspect(key)
			continue
		}
		m.Repeated = m.Repeated || *field != nil
		*field = value
	}
	m.Method = jsontext.Word(m.method)
	m.ID, _ = ParseID(m.id)
	switch {
	case m.method != nil && m.Method == "":
		return m, fmt.Errorf("%w: its method is not a name", ErrNotMessage)
	case m.method == nil && m.Result == nil && m.Error == nil:
		return m, fmt.Errorf("%w: it is neither a request, a notification nor a response", ErrNotMessage)
	}
	return m, nil
}

// ReadOne reads raw, which must be a single message and not a batch.
func ReadOne(raw []byte) (Message, error) {
	all, batch, err := Split(raw)
	switch {
	case err != nil:
		return Message{}, err
	case batch:
		return Message{}, fmt.Errorf("%w: it is a batch", ErrNotMessage)
	}
	return Read(all[0])
}

// Parse reads and validates a message or all messages of a batch. It returns the errors of
// [Split], [Read] and [Message.Valid].
func Parse(raw []byte) (messages []Message, batch bool, err error) {
	objects, batch, err := Split(raw)
	if err != nil {
		return nil, batch, err
	}
	messages = make([]Message, len(objects))
	for i, object := range objects {
		if messages[i], err = Read(object); err == nil {
			err = messages[i].Valid()
		}
		if err != nil {
			return nil, batch, err
		}
	}
	return messages, batch, nil
}

// at returns the field for a key, or nil if it is not a key of the envelope.
func (m *Message) at(key string) *[]byte {
	switch key {
	case "jsonrpc":
		return &m.version
	case "id":
		return &m.id
	case "method":
		return &m.method
	case "params":
		return (*[]byte)(&m.Params)
	case "result":
		return (*[]byte)(&m.Result)
	case "error":
		return (*[]byte)(&m.Error)
	}
	return nil
}

// suspect sets Misread if some parsers would read key as a key of the envelope.
func (m *Message) suspect(key string) {
	switch known := jsontext.FoldKey(key); {
	case m.Misread != nil:
	case m.at(known) != nil:
		m.Misread = fmt.Errorf("key %q, which some parsers read as %q", key, known)
	case strings.ContainsRune(key, utf8.RuneError):
		m.Misread = fmt.Errorf("key %q, which is not UTF-8", key)
	}
}

// IsRequest reports whether m requires a response.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID.Key != "" }

// Valid returns an error that wraps [ErrNotMessage] if m, as returned by [Read], violates
// the specification.
func (m Message) Valid() error {
	hasID := m.ID.Key != ""
	wrong := ""
	switch {
	case string(m.version) != `"2.0"` && jsontext.Word(m.version) != "2.0":
		wrong = `no "jsonrpc": "2.0"`
	case len(m.Method) > MaxName:
		wrong = fmt.Sprintf("its method has more than %d bytes", MaxName)
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		wrong = "both a call and a response"
	case m.Method != "" && !hasID && m.id != nil:
		wrong = fmt.Sprintf("an id must be a string or a number of at most %d KiB", MaxName>>10)
	case m.Method != "":
	case m.Result != nil && m.Error != nil:
		wrong = "both a result and an error"
	case !hasID && (m.Error == nil || m.id != nil && string(m.id) != "null"):
		wrong = "a response needs a string or number as id"
	}
	if wrong != "" {
		return fmt.Errorf("%w: %s", ErrNotMessage, wrong)
	}
	return nil
}

// envelope is an outgoing message.
type envelope struct {
	Version string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Method  string `json:"method,omitempty"`
	Params  any    `json:"params,omitempty"`
	Result  any    `json:"result,omitempty"`
	Error   any    `json:"error,omitempty"`
}

// Error codes; section 5.1 of the JSON-RPC specification.
const (
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// Code returns the code of the error of a response, or 0 if it has none.
func Code(failure []byte) int {
	code, _ := strconv.Atoi(string(jsontext.Member(failure, "code")))
	return code
}

// Request returns a request with a string id.
func Request(id, method string, params any) ([]byte, error) {
	return jsontext.Marshal(envelope{Version: "2.0", ID: id, Method: method, Params: params})
}

// Answer returns the response to a request. If the result cannot be encoded it returns an
// error response.
func Answer(id ID, result any) []byte {
	answer, err := jsontext.Marshal(envelope{Version: "2.0", ID: id.Raw, Result: result})
	if err != nil {
		return Refuse(id, InternalError, err.Error())
	}
	return answer
}

// Refuse returns an error response to a request.
func Refuse(id ID, code int, message string) []byte {
	failure := map[string]any{"code": code, "message": message}
	answer, _ := jsontext.Marshal(envelope{Version: "2.0", ID: id.Raw, Error: failure}) // an id that was read can be encoded
	return answer
}
