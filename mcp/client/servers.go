package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/transport"
)

// ErrConfig is wrapped by errors about mcp.json: it cannot be read, or lacks a server.
var ErrConfig = errors.New("mcp.json")

// Servers are the servers of an mcp.json. It keeps one session with each server that is used. It is
// not safe for concurrent use.
type Servers struct {
	client     string
	configPath string
	early      []string          // servers that do not support server/discover
	urls       map[string]string // by server; nil before mcp.json was read
	http       *http.Transport
	answerer   *answerer // nil if requests of servers have no answers
	open       map[string]*Session
}

// NewServers returns the servers of the mcp.json at configPath, which is read on first use. client
// is the agent's name. The servers in early are known not to support server/discover: their
// sessions start with initialize. answers are those to requests of servers, or nil.
func NewServers(configPath, client string, early []string, answers *input.Answers) *Servers {
	s := &Servers{
		client:     client,
		configPath: configPath,
		early:      early,
		// Servers are names of the task network, so the environment's proxies are ignored.
		http: &http.Transport{},
		open: map[string]*Session{},
	}
	if answers != nil {
		s.answerer = &answerer{Answers: *answers, http: &http.Client{Transport: s.http}}
	}
	return s
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
func (s *Servers) get(ctx context.Context, server string) (*Session, error) {
	if have, ok := s.open[server]; ok {
		return have, nil
	}
	if _, err := s.Names(); err != nil {
		return nil, err
	}
	at, ok := s.urls[server]
	if !ok {
		return nil, fmt.Errorf("%w has no server %q", ErrConfig, server)
	}
	where, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%w: server %q: %w", ErrConfig, server, err)
	}
	opened, err := join(ctx, transport.Server{Name: server, Upstream: &transport.Upstream{URL: where, Transport: s.http}}, s.client, slices.Contains(s.early, server), s.answerer)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", brief(err))
	}
	s.open[server] = opened
	return opened, nil
}

// brief returns why a server does not answer, without its name and advice for evals.
func brief(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != nil {
		return e.Cause
	}
	return err
}

// drop closes the server's session, so that the next use opens another one.
func (s *Servers) drop(server string) {
	if have, ok := s.open[server]; ok {
		delete(s.open, server)
		have.Close()
	}
}

// Close ends all sessions.
func (s *Servers) Close() {
	for _, server := range slices.Sorted(maps.Keys(s.open)) {
		s.drop(server)
	}
	s.http.CloseIdleConnections()
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
