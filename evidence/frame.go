package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
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
	if err := json.Unmarshal(b, &line); err != nil {
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
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func indent(compact []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, compact, "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}
