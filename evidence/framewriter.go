package evidence

import (
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// write writes f as JSON with the secrets taken out of Raw, of which limit bytes are
// kept. A message is as large as its sender likes, so it goes out piece by piece
// and is never held a second time. It returns what it replaced.
func (f Frame) write(w io.Writer, secrets *redact.Set, limit int) (found redact.Found, err error) {
	head, err := Marshal(frameHead{f.Seq, f.Time, f.Server, f.Conn, f.Dir})
	if err != nil {
		return found, err
	}
	if _, err := w.Write(head[:len(head)-1]); err != nil {
		return found, err
	}
	if found, err = f.writeRaw(w, secrets, limit); err != nil {
		return found, err
	}
	peer, ofPeer := f.Peer.redacted(secrets)
	found.Add(ofPeer)
	tail, err := Marshal(frameTail{f.Truncated, f.Redacted, f.Secrets, f.RedactedEnvelope, f.Synthetic, f.Side, peer, f.Injected})
	if err != nil {
		return found, err
	}
	if string(tail) != "{}" {
		tail[0] = ','
	} else {
		tail = tail[1:]
	}
	_, err = w.Write(tail)
	return found, err
}

// writeRaw writes Raw, and sets what became of it.
func (f *Frame) writeRaw(w io.Writer, secrets *redact.Set, limit int) (redact.Found, error) {
	found, over, err := writeBytes(w, "raw", f.Raw, secrets, limit)
	all := redact.Found{Spans: f.Redacted, Secrets: maps.Clone(f.Secrets), Envelope: f.RedactedEnvelope}
	all.Add(found)
	f.Redacted, f.Secrets, f.RedactedEnvelope = all.Spans, all.Secrets, all.Envelope
	f.Truncated += over
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

// writeBytes writes raw as a further member of a JSON object: as text where it is UTF-8,
// and else, behind another name, in base64. It returns what it replaced, and how many
// bytes are over the limit.
func writeBytes(w io.Writer, name string, raw []byte, secrets *redact.Set, limit int) (found redact.Found, over int64, err error) {
	inside := io.WriteCloser(jsontext.NewEscaper(w, false))
	if !utf8.Valid(raw) {
		name, inside = name+"_b64", base64.NewEncoder(base64.StdEncoding, w)
	}
	if _, err := io.WriteString(w, `,"`+name+`":"`); err != nil {
		return found, 0, err
	}
	kept := &bounded.Head{W: inside, Limit: int64(limit)} // only behind the redaction: a cut secret is not found
	found, err = secrets.WriteJSON(kept, raw)
	if err = errors.Join(err, inside.Close()); err != nil {
		return found, kept.Over(), err
	}
	_, err = io.WriteString(w, `"`)
	return found, kept.Over(), err
}

// write writes c as [ModelCall.MarshalJSON] does, with the secrets taken out of it. Its
// bytes go out piece by piece and are never held a second time, and limit bytes of
// each are kept. It returns what it replaced.
func (c ModelCall) write(w io.Writer, secrets *redact.Set, limit int) (all redact.Found, err error) {
	rest := struct {
		Truncated int64 `json:"truncated,omitempty"`
		Redacted  int   `json:"redacted,omitempty"`
	}{c.Truncated, c.Redacted}
	c.Truncated, c.Redacted = 0, 0
	head, err := Marshal(modelHead(c))
	if err != nil {
		return all, err
	}
	head, found := secrets.JSON(head)
	all.Add(found)
	if _, err := w.Write(head[:len(head)-1]); err != nil {
		return all, err
	}
	for _, part := range []struct {
		name string
		raw  []byte
	}{{"request", c.Request}, {"response", c.Response}} {
		if part.raw == nil {
			continue
		}
		found, over, err := writeBytes(w, part.name, part.raw, secrets, limit)
		if err != nil {
			return all, err
		}
		all.Add(found)
		rest.Truncated += over
	}
	rest.Redacted += all.Spans
	tail, err := Marshal(rest)
	if err != nil {
		return all, err
	}
	if string(tail) != "{}" {
		tail[0] = ','
	} else {
		tail = tail[1:]
	}
	_, err = w.Write(tail)
	return all, err
}
