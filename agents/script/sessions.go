package script

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// maxConfig is how many bytes of mcp.json are read.
const maxConfig = 1 << 20

// sessions holds one MCP session per server, each from its first use on.
type sessions struct {
	configPath string
	urls       map[string]string // by server; nil until mcp.json was read
	http       *http.Client
	open       map[string]session
}

// session is an MCP session and the last answer on its wire.
type session struct {
	client *client.Client
	wire   *wire
}

func newSessions(configPath string) *sessions {
	return &sessions{
		configPath: configPath,
		// Servers are names of the task network: no proxy of the environment.
		http: &http.Client{Transport: &http.Transport{}},
		open: map[string]session{},
	}
}

// url finds a server in mcp.json. Its errors are of class ErrConfig.
func (s *sessions) url(server string) (string, error) {
	if s.urls == nil {
		urls, err := readConfig(s.configPath)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrConfig, err)
		}
		s.urls = urls
	}
	url, ok := s.urls[server]
	if !ok {
		names := slices.Sorted(maps.Keys(s.urls))
		return "", fmt.Errorf("%w has no server %q%s; it has: %s", ErrConfig, server, suggestion(server, names), quoteAll(names))
	}
	return url, nil
}

func readConfig(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxConfig))
	if err != nil {
		return nil, err
	}
	var config struct {
		Servers map[string]struct {
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
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

// get returns the server's session and opens one where there is none.
func (s *sessions) get(ctx context.Context, server, url string) (session, error) {
	if have, ok := s.open[server]; ok {
		return have, nil
	}
	http, err := transport.NewStreamableHTTP(url,
		transport.WithHTTPBasicClient(s.http), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return session{}, err
	}
	w := &wire{StreamableHTTP: http}
	opened := session{client: client.NewClient(w), wire: w}
	if err := opened.initialize(ctx); err != nil {
		_ = opened.client.Close()
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	s.open[server] = opened
	return opened, nil
}

func (s session) initialize(ctx context.Context) error {
	if err := s.client.Start(ctx); err != nil {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "waza-script", Version: "1"}
	_, err := s.client.Initialize(ctx, hello)
	return err
}

// drop forgets the server's session, so that the next use opens another.
func (s *sessions) drop(server string) {
	if have, ok := s.open[server]; ok {
		delete(s.open, server)
		_ = have.client.Close()
	}
}

func (s *sessions) close() {
	for _, server := range slices.Sorted(maps.Keys(s.open)) {
		s.drop(server)
	}
	s.http.CloseIdleConnections()
}

// wire keeps the last answer as it came: the client's own types lose the digits
// of numbers, and do not tell a server's error from a broken connection.
type wire struct {
	*transport.StreamableHTTP
	answer *transport.JSONRPCResponse
}

// SendRequest is called for one request at a time, as steps are.
func (w *wire) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	answer, err := w.StreamableHTTP.SendRequest(ctx, request)
	if request.Method == string(mcp.MethodServerDiscover) {
		answer = modernOrNone(answer)
	}
	w.answer = answer
	return answer, err
}
