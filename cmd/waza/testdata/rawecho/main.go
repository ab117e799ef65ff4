// Command rawecho is an MCP server and its client that never decode what they
// compare: the server answers a request with the request itself, byte for byte.
//
//	rawecho serve            on stdin and stdout
//	rawecho listen PORT      over streamable HTTP
//	rawecho send URL IN OUT  sends each line of IN, and writes each answer as a
//	                         line of OUT
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(bufio.NewReaderSize(os.Stdin, 1<<20), os.Stdout)
	case "listen":
		err = http.ListenAndServe("127.0.0.1:"+os.Args[2], http.HandlerFunc(listen))
	case "send":
		err = send(os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// answer is the response to a message; nil for a notification.
func answer(line []byte) []byte {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
		return nil
	}
	result := line
	if m.Method == "initialize" {
		result = []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"rawecho","version":"1"}}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func serve(in *bufio.Reader, out io.Writer) error {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if a := answer(bytes.TrimSuffix(line, []byte("\n"))); a != nil {
			if _, err := out.Write(append(a, '\n')); err != nil {
				return err
			}
		}
	}
}

func listen(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	a := answer(body)
	if err != nil || a == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Mcp-Session-Id", "one")
	if r.Header.Get("Mcp-Session-Id") == "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", a)
}

func send(url, in, out string) error {
	lines, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	_, session, err := post(url, "", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rawecho","version":"1"}}}`))
	if err != nil {
		return err
	}
	var all []byte
	for line := range bytes.SplitSeq(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		got, _, err := post(url, session, line)
		if err != nil {
			return err
		}
		all = append(append(all, got...), '\n')
	}
	return os.WriteFile(out, all, 0o644)
}

// post returns the one message that answers body, as it came.
func post(url, session string, body []byte) (message []byte, _ string, err error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("HTTP %d, %v: %.200s", response.StatusCode, err, all)
	}
	for line := range bytes.SplitSeq(all, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(data) > 0 {
			return data, response.Header.Get("Mcp-Session-Id"), nil
		}
	}
	return all, response.Header.Get("Mcp-Session-Id"), nil
}
