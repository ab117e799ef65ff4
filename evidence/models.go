package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/model/dialect"
)

// Outcomes of model calls.
const (
	ModelOK        = "ok"
	ModelRefused   = "provider_error"  // the provider answered with an error
	ModelTransport = "transport_error" // no complete response: refused, reset, cut off or timed out
	ModelCancelled = "cancelled"       // the agent disconnected before the end of the response
	ModelBudget    = "budget"          // a limit of the trial was exceeded: the request was not sent, or was cut off
)

// ModelCall is one line of models.jsonl: a request from the agent to a model through the
// gateway, and the whole response. API keys are removed.
type ModelCall struct {
	Seq      int          `json:"seq"` // from 1, in the order of the requests, without gaps
	Provider string       `json:"provider"`
	Method   string       `json:"method"`
	Path     string       `json:"path"`              // below the provider's base URL, with the query without keys
	Dialect  dialect.Name `json:"dialect,omitempty"` // empty for requests other than turns, such as a list of models
	Model    string       `json:"model,omitempty"`   // as named in the request
	// RequestSHA256 is a digest of method, path and body that is the same for equivalent
	// requests: a JSON body is canonicalized, without the parts that differ each time.
	RequestSHA256 string         `json:"request_sha256"`
	Request       []byte         `json:"-"`                // exact bytes
	Status        int            `json:"status,omitempty"` // HTTP status; 0 without a response
	ContentType   string         `json:"content_type,omitempty"`
	Response      []byte         `json:"-"` // as sent to the agent, including all of a stream
	Start         time.Time      `json:"start"`
	FirstByte     time.Time      `json:"first_byte,omitzero"`  // of the response body
	FirstToken    time.Time      `json:"first_token,omitzero"` // first content
	End           time.Time      `json:"end"`
	Usage         *dialect.Usage `json:"usage,omitempty"`
	Cost          *float64       `json:"cost,omitempty"` // US dollars; nil if the model's price is unknown
	Outcome       string         `json:"outcome"`
	Played        bool           `json:"played,omitempty"` // the answer came from a record, such as a cassette, not from the provider
	Fault         FaultKind      `json:"fault,omitempty"`  // the fault that waza injected into the call
	Error         string         `json:"error,omitempty"`
	Truncated     int64          `json:"truncated,omitempty"` // bytes of the response that were dropped
	Redacted      int            `json:"redacted,omitempty"`  // number of secrets replaced
}

// IsTurn reports whether the request asked a model for a turn, as opposed to a list of
// models, for example.
func (c ModelCall) IsTurn() bool { return c.Dialect != "" }

// modelCallJSON is a line of models.jsonl. As in frames, bytes are stored as text if they
// are UTF-8, otherwise in base64.
type modelCallJSON struct {
	modelHead
	Request     *string `json:"request,omitempty"`
	RequestB64  []byte  `json:"request_b64,omitempty"`
	Response    *string `json:"response,omitempty"`
	ResponseB64 []byte  `json:"response_b64,omitempty"`
}

// modelHead is a call without the bytes of request and response.
type modelHead ModelCall

// MarshalJSON preserves Request and Response exactly.
func (c ModelCall) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	_, err := c.write(&out, nil, max(len(c.Request), len(c.Response)))
	return out.Bytes(), err
}

// write writes c as JSON without secrets, with request and response truncated to limit
// bytes each. It returns what it replaced.
func (c ModelCall) write(w io.Writer, secrets *secret.Set, limit int) (all secret.Found, err error) {
	truncated, redacted := c.Truncated, c.Redacted
	c.Truncated, c.Redacted = 0, 0
	head, err := Marshal(modelHead(c))
	if err != nil {
		return all, err
	}
	head, all = secrets.JSON(head)
	var payloads []payload
	for _, p := range []payload{{"request", c.Request}, {"response", c.Response}} {
		if p.raw != nil {
			payloads = append(payloads, p)
		}
	}
	found, err := writeLine(w, secrets, limit, head, payloads, func(found secret.Found, over int64) any {
		return struct {
			Truncated int64 `json:"truncated,omitempty"`
			Redacted  int   `json:"redacted,omitempty"`
		}{truncated + over, redacted + all.Spans + found.Spans}
	})
	all.Add(found)
	return all, err
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *ModelCall) UnmarshalJSON(b []byte) error {
	var line modelCallJSON
	if err := json.Unmarshal(b, &line); err != nil {
		return err
	}
	*c = ModelCall(line.modelHead)
	c.Request = bytesOf(line.Request, line.RequestB64)
	c.Response = bytesOf(line.Response, line.ResponseB64)
	return nil
}

// bytesOf returns the bytes that a line stores as text or in base64.
func bytesOf(text *string, b []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return b
}
