package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/model/dialect"
)

// Outcomes of model calls.
const (
	ModelOK        = "ok"
	ModelRefused   = "provider_error"  // the provider answered with an error
	ModelTransport = "transport_error" // no whole answer came: refused, reset, cut off, or timed out
	ModelCancelled = "cancelled"       // the agent left before the answer's end
	ModelBudget    = "budget"          // a limit of the trial's was reached: the provider was not asked, or the call cut off
)

// ModelCall is one line of models.jsonl: a request that the agent sent to a model
// through the gateway, and the whole answer. Keys are in none of it.
type ModelCall struct {
	Seq      int          `json:"seq"` // from 1, in order of the requests, without gaps
	Provider string       `json:"provider"`
	Method   string       `json:"method"`
	Path     string       `json:"path"`              // below the provider's base URL, with its query less keys
	Dialect  dialect.Name `json:"dialect,omitempty"` // empty for what is no model's turn, such as a list of models
	Model    string       `json:"model,omitempty"`   // as the request names it
	// RequestSHA256 is the same for requests with the same meaning: of method, path and body, whose
	// JSON is taken in canonical form without what differs each time.
	RequestSHA256 string         `json:"request_sha256"`
	Request       []byte         `json:"-"`                // as it came
	Status        int            `json:"status,omitempty"` // of HTTP; 0 where no answer came
	ContentType   string         `json:"content_type,omitempty"`
	Response      []byte         `json:"-"` // as the agent got it, all of a stream
	Start         time.Time      `json:"start"`
	FirstByte     time.Time      `json:"first_byte,omitzero"`  // of the answer's body
	FirstToken    time.Time      `json:"first_token,omitzero"` // the first that says something
	End           time.Time      `json:"end"`
	Usage         *dialect.Usage `json:"usage,omitempty"`
	Cost          *float64       `json:"cost,omitempty"` // US dollars; nil where the model has no price
	Outcome       string         `json:"outcome"`
	Error         string         `json:"error,omitempty"`
	Truncated     int64          `json:"truncated,omitempty"` // bytes of the answer that were not kept
	Redacted      int            `json:"redacted,omitempty"`  // secrets replaced in what was kept
}

// IsTurn reports whether the request asked a model for a turn, rather than for a list of models,
// for example.
func (c ModelCall) IsTurn() bool { return c.Dialect != "" }

// modelCallJSON is a line of models.jsonl. Like those of frames, bytes are kept as text if they
// are UTF-8, else in base64.
type modelCallJSON struct {
	modelHead
	Request     *string `json:"request,omitempty"`
	RequestB64  []byte  `json:"request_b64,omitempty"`
	Response    *string `json:"response,omitempty"`
	ResponseB64 []byte  `json:"response_b64,omitempty"`
}

// modelHead is a call without its bytes.
type modelHead ModelCall

// MarshalJSON keeps Request and Response to the byte.
func (c ModelCall) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	_, err := c.write(&out, nil, max(len(c.Request), len(c.Response)))
	return out.Bytes(), err
}

// write writes c as JSON with the secrets taken out of it, and limit bytes kept of its request
// and of its response. It returns what it replaced.
func (c ModelCall) write(w io.Writer, secrets *redact.Set, limit int) (all redact.Found, err error) {
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
	found, err := writeLine(w, secrets, limit, head, payloads, func(found redact.Found, over int64) any {
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

// bytesOf returns the bytes that a line has as text or in base64.
func bytesOf(text *string, b []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return b
}
