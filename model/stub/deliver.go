package stub

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/model/dialect"
)

// body is an answer as it crosses the wire, in the parts that are sent at once.
type body struct {
	contentType string
	parts       [][]byte
	stream      bool
}

// encoded is a in the shape that asked wants.
func (e *exchange) encoded(asked *request, a answer) (body, error) {
	if !asked.Stream {
		content, err := encode(e.shape.whole(a))
		return body{contentType: "application/json", parts: [][]byte{content}}, err
	}
	events := e.shape.events(a, asked)
	if asked.dialect == dialect.Generate && asked.asArray {
		return arrayOf(events)
	}
	made := body{contentType: sse.ContentType, stream: true}
	for _, event := range events {
		part, err := event.lines()
		if err != nil {
			return body{}, err
		}
		made.parts = append(made.parts, part)
	}
	return made, nil
}

// lines are the event as a stream of events has it.
func (e event) lines() ([]byte, error) {
	data, err := e.content()
	var out bytes.Buffer
	_, _ = sse.Message{Type: e.name, Data: data}.WriteTo(&out) // a buffer takes all
	return out.Bytes(), err
}

func (e event) content() ([]byte, error) {
	if word, ok := e.data.(rawText); ok {
		return []byte(word), nil
	}
	return encode(e.data)
}

// arrayOf is events as elements of one JSON array.
func arrayOf(events []event) (body, error) {
	made := body{contentType: "application/json", stream: true}
	before := "["
	for i, event := range events {
		content, err := event.content()
		if err != nil {
			return body{}, err
		}
		part := append([]byte(before), content...)
		if i == len(events)-1 {
			part = append(part, ']')
		}
		made.parts = append(made.parts, part)
		before = ",\r\n"
	}
	return made, nil
}

// write sends b, or with trouble half of it.
func (b body) write(w http.ResponseWriter, r *http.Request, t *trouble) {
	w.Header().Set("Content-Type", b.contentType)
	if b.stream {
		w.Header().Set("Cache-Control", "no-cache")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(b.parts[0])))
	}
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for i, part := range b.parts {
		half := t != nil && i == len(b.parts)/2
		if half {
			part = part[:len(part)/2]
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		_ = out.Flush() // what cannot flush sends it all at the end
		if half {
			t.breakOff(out, r)
		}
	}
}

// breakOff ends an answer in its middle. It does not return.
func (t *trouble) breakOff(out *http.ResponseController, r *http.Request) {
	wait(r.Context(), t.stall)
	if t.cut == "reset" {
		if conn, _, err := out.Hijack(); err == nil {
			reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// reset closes a connection so that its peer sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // where it fails, the peer sees a plain end
	}
	_ = conn.Close()
}

// wait returns after d, or when ctx ends; then with false.
func wait(ctx context.Context, d time.Duration) bool {
	return ctx.Err() == nil && retry.Sleep(ctx, d) == nil
}
