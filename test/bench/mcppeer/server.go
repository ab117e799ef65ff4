package mcppeer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxMessage limits the length of a message to the server, in bytes.
const maxMessage = 1 << 20

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments struct {
			Text  string `json:"text"`
			Count int    `json:"count"`
		} `json:"arguments"`
	} `json:"params"`
}

const tools = `{"tools":[` +
	`{"name":"echo","description":"Returns the text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"meet","description":"Waits until so many callers are here","inputSchema":{"type":"object","properties":{"count":{"type":"integer"}}}}]}`

// Handler is the server. It also serves streamable HTTP.
type Handler struct {
	mu      sync.Mutex
	waiting int           // number of callers of meet; guarded by mu
	met     chan struct{} // closed when all callers are there; guarded by mu
}

// NewHandler returns a Handler.
func NewHandler() *Handler { return &Handler{met: make(chan struct{})} }

// answer returns the response to a message, or nil if it needs none.
func (h *Handler) answer(ctx context.Context, message []byte) []byte {
	var r request
	if err := json.Unmarshal(message, &r); err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}`)
	}
	if len(r.ID) == 0 {
		return nil
	}
	switch r.Method {
	case "initialize":
		return result(r.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`)
	case "ping":
		return result(r.ID, `{}`)
	case "tools/list":
		return result(r.ID, tools)
	case "tools/call":
		if r.Params.Name == "meet" {
			h.meet(ctx, r.Params.Arguments.Count)
		}
		text, _ := json.Marshal(r.Params.Arguments.Text)
		return result(r.ID, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, r.ID)
}

func result(id json.RawMessage, value string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, value)
}

// meet returns when count callers are waiting, or when ctx ends.
func (h *Handler) meet(ctx context.Context, count int) {
	h.mu.Lock()
	met := h.met
	if h.waiting++; h.waiting >= count {
		h.waiting, h.met = 0, make(chan struct{})
		close(met)
	}
	h.mu.Unlock()
	select {
	case <-met:
	case <-ctx.Done():
	}
}

// serveLines serves one session on stdio.
func serveLines(in io.Reader, out io.Writer) error {
	h, reader := NewHandler(), bufio.NewReader(in)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if answer := h.answer(context.Background(), line); answer != nil {
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return err
			}
		}
	}
}

// ServeHTTP serves streamable HTTP without sessions.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/mcp" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := h.answer(r.Context(), message)
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}
