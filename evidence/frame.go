package evidence

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Direction is the direction of a frame through the proxy.
type Direction string

const (
	ToServer Direction = "to_server"
	ToClient Direction = "to_client"
)

// Synthetic is the reason for a frame that the proxy wrote in place of a peer. It is empty
// for frames written by the peers.
type Synthetic string

const (
	SyntheticTimeout   Synthetic = "timeout"         // the server did not answer within its limit
	SyntheticTransport Synthetic = "transport_error" // the server ended, or did not accept the message
	SyntheticCancelled Synthetic = "cancelled"       // the client cancelled the request by disconnecting
	SyntheticAbandoned Synthetic = "abandoned"       // the client disconnected, which up to 2025-11-25 does not cancel a request
	SyntheticExpired   Synthetic = "session_expired" // answered with HTTP 404: the session has ended, and the client must start another
	SyntheticHidden    Synthetic = "hidden_tool"     // not forwarded: the tool is hidden from the client
	SyntheticBudget    Synthetic = "budget"          // not forwarded: the client exceeded its limits
	SyntheticFault     Synthetic = "fault"           // a fault that the eval asks for
)

// Side is one of the two sides of a conversation.
type Side string

const (
	SideAgent  Side = "agent"
	SideServer Side = "server"
)

// Sender is who opened a conversation with a server.
type Sender string

const (
	SenderAgent  Sender = "agent"
	SenderHook   Sender = "hook"   // a hook of the eval
	SenderRunner Sender = "runner" // the probe, a grader's question, or an inspection
)

// Frame is one JSON-RPC message (or batch) that crossed the proxy, or one that the proxy
// sent in its place. Raw holds the exact bytes; [Frame.MarshalJSON] describes how they are
// stored.
type Frame struct {
	Seq       int64     `json:"seq,omitzero"`    // from 1, without gaps within a trial
	Time      time.Time `json:"t,omitzero"`      // when the proxy had received it completely, UTC
	Server    string    `json:"server,omitzero"` // server name as declared in the eval
	Conn      string    `json:"conn,omitzero"`   // one client's conversation with one server, unique in the trial
	Dir       Direction `json:"dir,omitzero"`
	Raw       []byte    `json:"-"`                   // without the transport's framing (no newline, no "data: ")
	Truncated int64     `json:"truncated,omitempty"` // bytes of the message that were dropped
	Redacted  int       `json:"redacted,omitempty"`  // number of secret spans replaced in Raw
	// Secrets counts the replaced spans by secret, as SERVER/NAME, for secrets named in the
	// eval.
	Secrets map[string]int `json:"secrets,omitempty"`
	// RedactedEnvelope reports that a secret was replaced in the message's id, method or
	// tool name, so that it is unknown what was called.
	RedactedEnvelope bool `json:"redacted_envelope,omitempty"`
	// Spans are the replaced spans in Raw. Frames of older runs have none.
	Spans     []secret.Span `json:"spans,omitempty"`
	Synthetic Synthetic     `json:"synthetic,omitempty"`
	// Fault is the fault that waza injected into the request in the frame, or into its answer.
	Fault FaultKind `json:"fault,omitempty"`
	// Played reports that the server's answer is not its own, but from a cassette or mcp_mocks.
	Played bool `json:"played,omitempty"`
	// Sender is who opened the conversation; see [Frame.OfAgent].
	Sender Sender `json:"sender,omitempty"`
	// Side is the only side that saw the message, if the other saw a changed message or
	// none, for example because tools are hidden from the agent. Empty means both.
	Side Side  `json:"side,omitempty"`
	Peer *Peer `json:"peer,omitempty"` // on frames from a client over HTTP

	// Injected lists the numbers of the attack's injections in Raw, counting from 1.
	Injected []int `json:"injected,omitempty"`

	line *line // place where the frame was read; nil unless it is large
}

// OfAgent reports whether the agent opened the conversation. In older runs, frames of such conversations have
// no sender.
func (f Frame) OfAgent() bool { return f.Sender == "" || f.Sender == SenderAgent }

// Peer is what HTTP shows about the client that sent a frame.
type Peer struct {
	Addr      string `json:"addr,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	Session   string `json:"session,omitempty"`
}

// frameJSON is a line of frames.jsonl. Raw is a JSON string rather than an embedded value,
// which an encoder would compact.
type frameJSON struct {
	frameFields
	Raw    *string `json:"raw,omitempty"`
	RawB64 []byte  `json:"raw_b64,omitempty"`
}

// frameFields is a frame without its bytes.
type frameFields Frame

// MarshalJSON preserves Raw exactly: as a string in "raw" if it is valid UTF-8, otherwise
// in base64 in "raw_b64".
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
	*f = Frame(line.frameFields)
	f.Raw = bytesOf(line.Raw, line.RawB64)
	return nil
}

// write writes f as JSON, with secrets in Raw replaced and Raw truncated to limit bytes. It
// returns what it replaced.
func (f Frame) write(w io.Writer, secrets *secret.Set, limit int) (found secret.Found, err error) {
	head, err := Marshal(frameFields{Seq: f.Seq, Time: f.Time, Server: f.Server, Conn: f.Conn, Dir: f.Dir})
	if err != nil {
		return found, err
	}
	rest := frameFields(f)
	rest.Seq, rest.Time, rest.Server, rest.Conn, rest.Dir = 0, time.Time{}, "", "", ""
	var ofPeer secret.Found
	rest.Peer, ofPeer = f.Peer.redacted(secrets)
	found, err = writeLine(w, secrets, limit, head, []payload{{"raw", f.Raw}}, func(found secret.Found, over int64) any {
		all := secret.Found{Spans: f.Redacted, Secrets: maps.Clone(f.Secrets), Envelope: f.RedactedEnvelope}
		all.Add(found)
		rest.Truncated, rest.Redacted, rest.Secrets, rest.RedactedEnvelope = f.Truncated+over, all.Spans, all.Secrets, all.Envelope
		rest.Spans = append(slices.Clip(f.Spans), found.Where...)
		return rest
	})
	found.Add(ofPeer)
	return found, err
}

// redacted returns p without secrets, which a client may have put into its headers and a
// server into a session ID.
func (p *Peer) redacted(secrets *secret.Set) (*Peer, secret.Found) {
	if p == nil {
		return nil, secret.Found{}
	}
	clean, all := *p, secret.Found{}
	for _, text := range []*string{&clean.UserAgent, &clean.Session} {
		cleaned, found := secrets.Bytes([]byte(*text))
		*text = string(cleaned)
		all.Add(found)
	}
	return &clean, all
}

// payload is a member of a line whose bytes are preserved exactly.
type payload struct {
	name string
	raw  []byte
}

// writeLine writes one JSON object: the members of head, the payloads, and the members that
// tail returns. Secrets in payloads are replaced, and each payload is truncated to limit
// bytes; tail receives what was replaced and how many bytes were dropped. Payloads may be
// large, so they are streamed, not copied. writeLine returns what it replaced.
func writeLine(w io.Writer, secrets *secret.Set, limit int, head []byte, payloads []payload, tail func(found secret.Found, over int64) any) (all secret.Found, err error) {
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
		all.Where = append(all.Where, found.Where...)
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

// write writes p as a further member of a JSON object: as text if it is UTF-8, otherwise in
// base64 with the suffix _b64 in the name. It returns what it replaced and how many bytes
// exceed the limit.
func (p payload) write(w io.Writer, secrets *secret.Set, limit int) (found secret.Found, over int64, err error) {
	name, inside := p.name, io.WriteCloser(jsontext.NewEscaper(w, false))
	if !utf8.Valid(p.raw) {
		name, inside = name+"_b64", base64.NewEncoder(base64.StdEncoding, w)
	}
	if _, err := io.WriteString(w, `,"`+name+`":"`); err != nil {
		return found, 0, err
	}
	kept := &bounded.Head{W: inside, Limit: int64(limit)} // after the redaction, since a truncated secret would not be found
	found, err = secrets.WriteJSON(kept, p.raw)
	if err = errors.Join(err, inside.Close()); err != nil {
		return found, kept.Over(), err
	}
	_, err = io.WriteString(w, `"`)
	return found, kept.Over(), err
}

// frameCost is an upper bound on the size of a frame without its message, in bytes.
const frameCost = 1 << 10

// quoted returns an upper bound on the size of text in a frame, in bytes. For text that is not UTF-8, the
// bound also covers the replacement characters that other places use for its bytes.
func quoted(text []byte) int64 {
	if !utf8.Valid(text) {
		return 5 * int64(len(text)+1)
	}
	n := int64(len(text))
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5 // \u0000
		}
	}
	return n
}
