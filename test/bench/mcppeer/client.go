package mcppeer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// client is a connection to a server.
type client interface {
	// exchange sends a message. For a request it returns the response.
	exchange(ctx context.Context, message []byte, request bool) ([]byte, error)
	close() error
}

// httpClient uses streamable HTTP and keeps its connection alive.
type httpClient struct {
	url     string
	session string
}

func (c *httpClient) exchange(ctx context.Context, message []byte, _ bool) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("HTTP %s: %s", response.Status, body)
	}
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		c.session = session
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return eventData(body), nil
	}
	return body, nil
}

// eventData returns the data of the last event of an SSE stream.
func eventData(body []byte) []byte {
	var data []byte
	for line := range bytes.Lines(body) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = bytes.TrimSpace(value)
		}
	}
	return data
}

func (c *httpClient) close() error {
	http.DefaultClient.CloseIdleConnections()
	return nil
}

// stdioClient is a client of a server that it started.
type stdioClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startStdio(ctx context.Context) (*stdioClient, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "stdio")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &stdioClient{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (c *stdioClient) exchange(_ context.Context, message []byte, request bool) ([]byte, error) {
	if _, err := c.in.Write(append(bytes.Clone(message), '\n')); err != nil || !request {
		return nil, err
	}
	return c.out.ReadBytes('\n')
}

func (c *stdioClient) close() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }
