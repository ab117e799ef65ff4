package session

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// tidy replaces answers that are not as JSON-RPC specifies by ones that are: the client
// drops what it cannot decode and goes on waiting. What cannot be relied on becomes an error.
type tidy struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t tidy) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := askedBy(r)
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || asked.Key == "" || response.StatusCode != http.StatusOK {
		return response, err
	}
	memory := bounded.NewBudget(4 * transport.DefaultMessage)
	if sse.IsContentType(response.Header.Get("Content-Type")) {
		response.Body = &tidyStream{ReadCloser: response.Body, asked: asked, events: transport.NewEventReader(response.Body, transport.DefaultMessage, memory)}
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := transport.ReadBody(response.Body, response.ContentLength, transport.DefaultMessage, memory)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(tidied(body.Bytes, asked)))
	response.ContentLength = -1
	return response, nil
}

// askedBy returns the id of the request in a POST, or zero.
func askedBy(r *http.Request) jsonrpc.ID {
	if r.GetBody == nil {
		return jsonrpc.ID{}
	}
	body, err := r.GetBody()
	if err != nil {
		return jsonrpc.ID{}
	}
	raw, _ := io.ReadAll(body) // in memory
	if m, err := jsonrpc.ReadOne(raw); err == nil && m.IsRequest() {
		return m.ID
	}
	return jsonrpc.ID{}
}

// tidyStream is an event stream with its messages tidied.
type tidyStream struct {
	io.ReadCloser
	asked  jsonrpc.ID
	events *transport.EventReader
	rest   []byte
}

// Read implements io.Reader.
func (s *tidyStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		e, err := s.events.Next()
		if err != nil {
			return 0, err
		}
		s.rest = bytes.Clone(e.Raw)
		if e.IsMessage() {
			if data := tidied(e.Data, s.asked); !bytes.Equal(data, e.Data) {
				s.rest = e.WithData(data)
			}
		}
		e.Release()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// tidied returns raw, or in its place an answer to the request if raw holds one that is odd.
func tidied(raw []byte, asked jsonrpc.ID) []byte {
	messages, batch, err := jsonrpc.Hear(raw)
	if err != nil {
		return raw
	}
	for _, m := range messages {
		switch twin := m.ID.Key == asked.Twin(); {
		case m.Method != "" || m.ID.Key != asked.Key && !twin && (m.ID.Key != "" || m.Error == nil):
		case twin:
			return jsonrpc.Refuse(asked, jsonrpc.InternalError, "the id of the server's answer is of another type than the request's")
		case m.Odd == nil && m.ID.Key != "" && !batch:
			return raw
		case m.Error != nil:
			code, _ := strconv.Atoi(string(jsontext.Member(m.Error, "code")))
			return jsonrpc.Refuse(asked, code, cmp.Or(jsontext.Text(jsontext.Member(m.Error, "message")), jsontext.Text(m.Error)))
		case m.Result != nil:
			return jsonrpc.Answer(asked, m.Result)
		default:
			return jsonrpc.Refuse(asked, jsonrpc.InternalError, "the server's answer is wrong: "+m.Odd.Error())
		}
	}
	return raw
}
