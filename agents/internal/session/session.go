// Package session manages an agent's MCP sessions with the servers of its mcp.json.
//
// It does not answer requests of servers (sampling, elicitation, roots), and does not evaluate
// responses. It repeats a request only in a new session, if the server has ended the old one.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// ErrConfig is wrapped by errors about mcp.json: it cannot be read, or lacks a server.
var ErrConfig = errors.New("mcp.json")

// Servers keeps one session for each server after its first use. It is not safe for concurrent
// use.
type Servers struct {
	client     string
	configPath string
	early      []string          // servers that do not support server/discover
	urls       map[string]string // by server; nil before mcp.json was read
	http       *http.Client
	open       map[string]conversation
}

// conversation is an MCP session and its last response on the wire.
type conversation struct {
	client *client.Client
	wire   *wire
}

// New returns the servers of the mcp.json at configPath, which is read on first use. client is
// the agent's name. The servers in early are known not to support server/discover: their
// sessions start with initialize.
func New(configPath, client string, early []string) *Servers {
	return &Servers{
		client:     client,
		configPath: configPath,
		early:      early,
		// Servers are names of the task network, so the environment's proxies are ignored.
		http: &http.Client{Transport: tidy{&http.Transport{}}},
		open: map[string]conversation{},
	}
}

// Names lists the servers, sorted. Its errors are of class [ErrConfig].
func (s *Servers) Names() ([]string, error) {
	if s.urls == nil {
		urls, err := readConfig(s.configPath)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		s.urls = urls
	}
	return slices.Sorted(maps.Keys(s.urls)), nil
}

// get returns the server's session, and opens it if necessary.
func (s *Servers) get(ctx context.Context, server string) (conversation, error) {
	if have, ok := s.open[server]; ok {
		return have, nil
	}
	if _, err := s.Names(); err != nil {
		return conversation{}, err
	}
	url, ok := s.urls[server]
	if !ok {
		return conversation{}, fmt.Errorf("%w has no server %q", ErrConfig, server)
	}
	http, err := transport.NewStreamableHTTP(url,
		transport.WithHTTPBasicClient(s.http), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return conversation{}, err
	}
	w := &wire{StreamableHTTP: http}
	var options []client.ClientOption
	if slices.Contains(s.early, server) {
		options = append(options, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	opened := conversation{client: client.NewClient(w, options...), wire: w}
	if err := opened.initialize(ctx, s.client); err != nil {
		_ = opened.client.Close()
		return conversation{}, fmt.Errorf("opening a session: %w", err)
	}
	s.open[server] = opened
	return opened, nil
}

func (c conversation) initialize(ctx context.Context, name string) error {
	if err := c.client.Start(ctx); err != nil {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: name, Version: "1"}
	_, err := c.client.Initialize(ctx, hello)
	return err
}

// drop closes the server's session, so that the next use opens another one.
func (s *Servers) drop(server string) {
	if have, ok := s.open[server]; ok {
		delete(s.open, server)
		_ = have.client.Close()
	}
}

// Close ends all sessions.
func (s *Servers) Close() {
	for _, server := range slices.Sorted(maps.Keys(s.open)) {
		s.drop(server)
	}
	s.http.CloseIdleConnections()
}

// wire keeps the last response as received: the client's own types lose digits of numbers, and
// do not distinguish a server's error from a broken connection.
type wire struct {
	*transport.StreamableHTTP
	answer *transport.JSONRPCResponse
}

// SendRequest implements transport.Interface. Agents make one request at a time.
func (w *wire) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	answer, err := w.StreamableHTTP.SendRequest(ctx, request)
	if request.Method == string(mcp.MethodServerDiscover) {
		answer = modernOrNone(answer)
	}
	w.answer = answer
	return answer, err
}

// readConfig reads each server's URL.
func readConfig(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Servers map[string]struct {
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"mcpServers"`
	}
	if err := jsontext.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	urls := make(map[string]string, len(config.Servers))
	for name, server := range config.Servers {
		if server.Type != "http" || server.URL == "" {
			return nil, fmt.Errorf(`%s: server %q must have type "http" and a url`, path, name)
		}
		urls[name] = server.URL
	}
	return urls, nil
}

// modernOrNone returns the response to server/discover, or an error if it does not offer a
// protocol version without sessions. The client would accept any response, and a server may
// support discover but only earlier versions.
func modernOrNone(answer *transport.JSONRPCResponse) *transport.JSONRPCResponse {
	if answer == nil || answer.Error != nil {
		return answer
	}
	var discovered struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if jsontext.Unmarshal(answer.Result, &discovered) != nil || slices.ContainsFunc(discovered.SupportedVersions, mcp.IsModernProtocol) {
		return answer
	}
	refused := *answer
	refused.Result = nil
	refused.Error = &mcp.JSONRPCErrorDetails{Code: mcp.METHOD_NOT_FOUND, Message: "the server supports only protocol versions with sessions"}
	return &refused
}
