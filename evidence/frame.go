package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// frameJSON is a line of frames.jsonl. Raw is a JSON string, not an embedded
// value: an encoder would compact an embedded one, and the bytes are the point.
type frameJSON struct {
	frameHead
	Raw    *string `json:"raw,omitempty"`
	RawB64 *string `json:"raw_b64,omitempty"`
	frameTail
}

type frameHead struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"t"`
	Server string    `json:"server"`
	Conn   string    `json:"conn"`
	Dir    Direction `json:"dir"`
}

type frameTail struct {
	Truncated int64          `json:"truncated,omitempty"`
	Redacted  int            `json:"redacted,omitempty"`
	Secrets   map[string]int `json:"secrets,omitempty"`
	Envelope  bool           `json:"redacted_envelope,omitempty"`
	Synthetic Synthetic      `json:"synthetic,omitempty"`
	Side      Side           `json:"side,omitempty"`
	Peer      *Peer          `json:"peer,omitempty"`
	Injected  []int          `json:"injected,omitempty"`
}

// MarshalJSON keeps Raw to the byte: as a string in "raw" where it is valid
// UTF-8, else in "raw_b64".
func (f Frame) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	_, err := f.write(&out, nil, len(f.Raw))
	return out.Bytes(), err
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (f *Frame) UnmarshalJSON(b []byte) error {
	var line frameJSON
	if err := jsontext.Unmarshal(b, &line); err != nil {
		return err
	}
	*f = Frame{
		Seq: line.Seq, Time: line.Time, Server: line.Server, Conn: line.Conn, Dir: line.Dir,
		Truncated: line.Truncated, Redacted: line.Redacted, Secrets: line.Secrets, RedactedEnvelope: line.Envelope, Synthetic: line.Synthetic, Side: line.Side, Peer: line.Peer, Injected: line.Injected,
	}
	switch {
	case line.Raw != nil:
		f.Raw = []byte(*line.Raw)
	case line.RawB64 != nil:
		raw, err := base64.StdEncoding.DecodeString(*line.RawB64)
		if err != nil {
			return fmt.Errorf("frame %d: raw_b64: %w", line.Seq, err)
		}
		f.Raw = raw
	}
	return nil
}

// Marshal encodes v as every line of JSON of a run directory is: without HTML escaping,
// so that what was captured stays readable.
func Marshal(v any) ([]byte, error) { return jsontext.Marshal(v) }

func indent(compact []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, compact, "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// write writes f as JSON with the secrets taken out of Raw, of which limit bytes are
// kept. It returns what it replaced.
func (f Frame) write(w io.Writer, secrets *redact.Set, limit int) (found redact.Found, err error) {
	head, err := Marshal(frameHead{f.Seq, f.Time, f.Server, f.Conn, f.Dir})
	if err != nil {
		return found, err
	}
	peer, ofPeer := f.Peer.redacted(secrets)
	found, err = writeLine(w, secrets, limit, head, []payload{{"raw", f.Raw}}, func(found redact.Found, over int64) any {
		all := redact.Found{Spans: f.Redacted, Secrets: maps.Clone(f.Secrets), Envelope: f.RedactedEnvelope}
		all.Add(found)
		return frameTail{f.Truncated + over, all.Spans, all.Secrets, all.Envelope, f.Synthetic, f.Side, peer, f.Injected}
	})
	found.Add(ofPeer)
	return found, err
}

// redacted is p without secrets, which a client may have put into its headers, and a
// server into the name of a session.
func (p *Peer) redacted(secrets *redact.Set) (*Peer, redact.Found) {
	if p == nil {
		return nil, redact.Found{}
	}
	clean, all := *p, redact.Found{}
	for _, text := range []*string{&clean.UserAgent, &clean.Session} {
		cleaned, found := secrets.Bytes([]byte(*text))
		*text = string(cleaned)
		all.Add(found)
	}
	return &clean, all
}

// payload is bytes that a line keeps as they came.
type payload struct {
	name string
	raw  []byte
}

// writeLine writes a line of JSON that begins with an object, head, and goes on with payloads,
// whose secrets are taken out and of which limit bytes each are kept, and with the members of
// what tail makes of that. A payload is as large as its sender likes, so it goes out piece by
// piece and is never held a second time. It returns what it replaced.
func writeLine(w io.Writer, secrets *redact.Set, limit int, head []byte, payloads []payload, tail func(found redact.Found, over int64) any) (all redact.Found, err error) {
	if _, err := w.Write(head[:len(head)-1]); err != nil {
		return all, err
	}
	over := int64(0)
	for _, p := range payloads {
		found, left, err := p.write(w, secrets, limit)
		if err != nil {
			return all, err
		}
		all.Add(found)
		over += left
	}
	end, err := Marshal(tail(all, over))
	if err != nil {
		return all, err
	}
	if string(end) != "{}" {
		end[0] = ','
	} else {
		end = end[1:]
	}
	_, err = w.Write(end)
	return all, err
}

// write writes p as a further member of a JSON object: as text where it is UTF-8, and else,
// behind another name, in base64. It returns what it replaced, and how many bytes are over the
// limit.
func (p payload) write(w io.Writer, secrets *redact.Set, limit int) (found redact.Found, over int64, err error) {
	name, inside := p.name, io.WriteCloser(jsontext.NewEscaper(w, false))
	if !utf8.Valid(p.raw) {
		name, inside = name+"_b64", base64.NewEncoder(base64.StdEncoding, w)
	}
	if _, err := io.WriteString(w, `,"`+name+`":"`); err != nil {
		return found, 0, err
	}
	kept := &bounded.Head{W: inside, Limit: int64(limit)} // only behind the redaction: a cut secret is not found
	found, err = secrets.WriteJSON(kept, p.raw)
	if err = errors.Join(err, inside.Close()); err != nil {
		return found, kept.Over(), err
	}
	_, err = io.WriteString(w, `"`)
	return found, kept.Over(), err
}

// frameCost is more than a frame and its call take without the message, and modelCost more
// than a model's call takes without request and response.
const (
	frameCost = 1 << 10
	modelCost = 1 << 10
)

// CostOf returns how much room a message takes at most: in its frame, and then in its call,
// in the results and in the report, which are made of that.
func CostOf(message []byte) int64 { return 2*(quoted(message)+int64(len(message))) + frameCost }

// ModelCost returns how much room a call of a model takes at most.
func ModelCost(c ModelCall) int64 { return quoted(c.Request) + quoted(c.Response) + modelCost }

// quoted is how long text is at most as a frame has it.
func quoted(text []byte) int64 {
	if !utf8.Valid(text) {
		return int64(base64.StdEncoding.EncodedLen(len(text)))
	}
	n := int64(len(text))
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5 // as \u0000
		}
	}
	return n
}
