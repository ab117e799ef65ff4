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
	"cmp"
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

// Twin returns the key of the id of the other type that is spelled the same, as 1 and "1"
// are, or "" if there is none.
func (id ID) Twin() string {
	text, quoted := strings.CutPrefix(id.Key, "s")
	if !quoted && id.Key != "" {
		return "s" + string(id.Raw)
	}
	if twin, ok := ParseID([]byte(text)); ok && text[0] != '"' && jsontext.Valid(twin.Raw) {
		return twin.Key
	}
	return ""
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
	// Odd says what is wrong with an answer that [Hear] accepted nevertheless. It is nil if
	// nothing is.
	Odd error

	version, method, id []byte // raw values
	other               string // first key that is not of the envelope
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
			m.other = cmp.Or(m.other, key)
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

// Hear reads what a server sent: a message or all messages of a batch. Hear is lenient with
// responses, because a response belongs to its request by its id alone: it also accepts responses
// that [Parse] rejects, even those that are not JSON, and [Message.Odd] says why. If neither the
// result nor the error can be relied on, the response is returned without both. In a batch with a
// response, an element that is not a message becomes a response without an id. Errors are those of
// [Parse].
func Hear(raw []byte) (messages []Message, batch bool, err error) {
	objects, batch, err := Split(raw)
	if errors.Is(err, ErrNotJSON) {
		if m := salvage(raw); m.ID.Key != "" {
			m.Odd = err
			return []Message{m}, false, nil
		}
	}
	if err != nil {
		return nil, batch, err
	}
	messages = make([]Message, len(objects))
	known := 0
	for i, object := range objects {
		m, wrong := Read(object)
		switch {
		case m.isAnswer():
			m, wrong = m.answer(), nil
		case wrong == nil:
			wrong = m.Valid()
		}
		if wrong == nil {
			known++
		} else {
			m, err = Message{Raw: object, Odd: wrong}, cmp.Or(err, wrong)
		}
		messages[i] = m
	}
	if known == 0 {
		return nil, batch, err
	}
	return messages, batch, nil
}

// salvage returns a message with only the id of a response that is not valid JSON, such as one with
// NaN. The id is zero if raw may be anything else, or is incomplete.
func salvage(raw []byte) Message {
	m, _ := Read(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")))
	var end jsontext.Scanner
	if _, whole := end.Scan(raw); !whole || !jsontext.Valid(m.id) || m.method != nil || !m.isEnvelope() {
		return Message{Raw: raw}
	}
	return Message{Raw: raw, ID: m.ID}
}

// isAnswer reports whether a message from a server is a response: it has an id, and a result or an
// error. A response without either must have another key of the envelope, since a line of a log may
// have an id too.
func (m Message) isAnswer() bool {
	answers := isValue(m.Result) || isValue(m.Error)
	return m.ID.Key != "" && (answers || m.Method == "" && m.isEnvelope())
}

// isEnvelope reports whether a message has a key that responses have and log lines usually lack.
func (m Message) isEnvelope() bool { return m.version != nil || m.Result != nil || m.Error != nil }

// isValue reports whether a member is present and not null.
func isValue(raw []byte) bool { return len(raw) > 0 && string(raw) != "null" }

// answer returns a response as it is interpreted, with Odd set. If it has a result and an error,
// the error counts. Members that can be read in two ways are dropped.
func (m Message) answer() Message {
	m.Odd = m.oddity()
	unclear := m.Repeated || m.Misread != nil || m.Method != ""
	if unclear || !isValue(m.Result) || isValue(m.Error) {
		m.Result = nil
	}
	if unclear || !isValue(m.Error) {
		m.Error = nil
	}
	m.Method = ""
	return m
}

// oddity returns what is wrong with an answer.
func (m Message) oddity() error {
	wrong := ""
	code, text := jsontext.Member(m.Error, "code"), jsontext.Member(m.Error, "message")
	switch {
	case m.Repeated:
		wrong = "a key of its envelope comes twice"
	case m.Misread != nil:
		wrong = m.Misread.Error()
	case m.other != "":
		wrong = fmt.Sprintf("its key %.64q is none of JSON-RPC", m.other)
	case m.method != nil:
		wrong = "an answer has no method"
	case isValue(m.Result) && m.Error != nil && !isValue(m.Error):
		wrong = "its error is null beside a result"
	case isValue(m.Error) && m.Result != nil && !isValue(m.Result):
		wrong = "its result is null beside an error"
	case !isValue(m.Result) && !isValue(m.Error):
		wrong = "it has neither a result nor an error"
	case !isValue(m.Error):
	case m.Error[0] != '{':
		wrong = "its error is not an object"
	case !isInteger(code):
		wrong = "the code of its error is not an integer"
	case len(text) == 0 || text[0] != '"':
		wrong = "the message of its error is not a text"
	}
	if wrong = cmp.Or(wrong, m.wrong()); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

func isInteger(raw []byte) bool {
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil
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
	if wrong := m.wrong(); wrong != "" {
		return fmt.Errorf("%w: %s", ErrNotMessage, wrong)
	}
	return nil
}

func (m Message) wrong() string {
	hasID := m.ID.Key != ""
	switch {
	case string(m.version) != `"2.0"` && jsontext.Word(m.version) != "2.0":
		return `no "jsonrpc": "2.0"`
	case len(m.Method) > MaxName:
		return fmt.Sprintf("its method has more than %d bytes", MaxName)
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return "both a call and a response"
	case m.Method != "" && !hasID && m.id != nil:
		return fmt.Sprintf("an id must be a string or a number of at most %d KiB", MaxName>>10)
	case m.Method != "":
		return ""
	case m.Result != nil && m.Error != nil:
		return "both a result and an error"
	case !hasID && (m.Error == nil || m.id != nil && string(m.id) != "null"):
		return "a response needs a string or number as id"
	}
	return ""
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

// Request returns a request with an integer id, which every server accepts.
func Request(id int, method string, params any) ([]byte, error) {
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
	failure, _ := jsontext.Marshal(map[string]any{"code": code, "message": message}) // a map of strings and numbers always marshals
	return Fail(id, failure)
}

// Fail returns an error response to a request, with an error that is JSON.
func Fail(id ID, failure json.RawMessage) []byte {
	answer, _ := jsontext.Marshal(envelope{Version: "2.0", ID: id.Raw, Error: failure}) // an id that was parsed always marshals
	return answer
}
