package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// stockServer is an MCP server with one tool, whose result is answer. It writes complaint to
// stderr when it starts.
func stockServer(answer, complaint string) program {
	return program{run: func(p *fakeProcess) int {
		io.WriteString(p.err, complaint)
		text, _ := json.Marshal(answer)
		serveTool(p, "stock", func() string { return `{"content":[{"type":"text","text":` + string(text) + `}]}` })
		return 0
	}}
}

// serveTool answers initialize, and each tools/call with what result returns, and refuses all else, until
// the process's input ends.
func serveTool(p *fakeProcess, name string, result func() string) {
	lines := bufio.NewScanner(p.in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			reply(p.out, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"`+name+`","version":"1"}}`)
		case "tools/call":
			reply(p.out, m.ID, result())
		default:
			unknown(p.out, m.ID)
		}
	}
}

// unknown refuses a request whose method a server does not know.
func unknown(w io.Writer, id json.RawMessage) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", id)
}

func reply(w io.Writer, id json.RawMessage, result string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
}

// callStock calls the tool of a server as an agent does, and returns what came.
func callStock(s *fakeSandbox, server string) (string, error) {
	c, err := openSession(s, server)
	if err != nil {
		return "", err
	}
	return c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"price","arguments":{"item":"bolt"}}}`)
}

// openSession opens a session with a server as an agent does.
func openSession(s *fakeSandbox, server string) (*mcpClient, error) {
	transport := &http.Transport{DialContext: s.dial, DisableKeepAlives: true}
	c := &mcpClient{http: &http.Client{Transport: transport}, url: "http://" + server + "/mcp"}
	if _, err := c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`); err != nil {
		return nil, err
	}
	_, err := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, err
}

type mcpClient struct {
	http         *http.Client
	url, session string
}

func (c *mcpClient) post(body string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	response, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	answer, err := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		return "", fmt.Errorf("%s: %s", response.Status, answer)
	}
	return string(answer), err
}

// buyer is an agent that calls server once and prints the answer.
func buyer(server string) program {
	return program{run: func(p *fakeProcess) int {
		answer, err := callStock(p.container, server)
		if err != nil {
			fmt.Fprintln(p.err, err)
			return 1
		}
		io.WriteString(p.out, answer)
		return 0
	}}
}
