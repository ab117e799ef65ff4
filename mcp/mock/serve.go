package mock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/sandbox/process"
)

// versions lists the supported protocol versions, the newest last.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Player plays a server: it knows what was given. A trial has its own.
type Player struct {
	server    *Server
	answers   *cassette.Player
	unmatched func(message string)
}

// Play returns a player of the server. It calls unmatched for each call without an answer.
func (s *Server) Play(unmatched func(message string)) *Player {
	return &Player{server: s, answers: s.side.Play(), unmatched: unmatched}
}

// Start starts a session with the server.
func (p *Player) Start() process.Process {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &session{player: p, stdin: stdin, stdout: stdout, in: in, ended: make(chan struct{}), done: make(chan struct{})}
	go s.serve(out)
	return s
}

// session is a conversation over stdio.
type session struct {
	player *Player
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	in     *io.PipeReader
	ended  chan struct{} // closed when no more messages come
	done   chan struct{}
}

func (p *session) Stdin() io.WriteCloser { return p.stdin }
func (p *session) Stdout() io.Reader     { return p.stdout }
func (p *session) Stderr() io.Reader     { return strings.NewReader("") }

// Signal ends the session, whatever the signal.
func (p *session) Signal(process.Signal) error {
	_ = p.in.Close() // closing a pipe does not fail
	_ = p.stdout.Close()
	return nil
}

func (p *session) Wait() (process.Exit, error) {
	<-p.done
	return process.Exit{}, nil
}

// serve answers messages, one per line, until either side closes. A delayed answer does not
// hold up others.
func (p *session) serve(out *io.PipeWriter) {
	defer close(p.done)
	var delayed sync.WaitGroup
	defer delayed.Wait()
	defer func() { _ = out.Close() }()
	defer close(p.ended)
	in := bufio.NewReader(p.in)
	for {
		line, err := in.ReadBytes('\n')
		switch answer, delay := p.player.handle(line); {
		case answer == nil:
		case delay > 0:
			delayed.Go(func() {
				select {
				case <-time.After(delay):
					_, _ = out.Write(append(answer, '\n')) // or nobody reads any more
				case <-p.ended:
				}
			})
		default:
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// handle returns the response to one message, or nil if it needs none, and how long to wait
// with it.
func (p *Player) handle(line []byte) ([]byte, time.Duration) {
	r, err := jsonrpc.ReadOne(line)
	if err != nil || !r.IsRequest() {
		return nil, 0
	}
	switch r.Method {
	case "initialize":
		return jsonrpc.Answer(r.ID, p.server.initialize(r.Params)), 0
	case "ping":
		return jsonrpc.Answer(r.ID, struct{}{}), 0
	case "tools/list":
		return jsonrpc.Answer(r.ID, map[string]any{"tools": p.server.list()}), 0
	case "tools/call":
		if result, delay := p.call(r.Params); result != nil {
			return jsonrpc.Answer(r.ID, result), delay
		}
		return jsonrpc.Refuse(r.ID, jsonrpc.InvalidParams, "tools/call needs the name of a tool of this server, and arguments that are an object"), 0
	}
	return jsonrpc.Refuse(r.ID, jsonrpc.MethodNotFound, "a mock server answers initialize, ping, tools/list and tools/call"), 0
}

func (s *Server) initialize(params json.RawMessage) any {
	version := jsontext.Word(jsontext.Member(params, "protocolVersion"))
	if !slices.Contains(versions, version) {
		version = versions[len(versions)-1]
	}
	return map[string]any{
		"protocolVersion": version,
		"capabilities":    map[string]any{"tools": struct{}{}},
		"serverInfo":      map[string]any{"name": s.Name, "version": "mock"},
	}
}

func (s *Server) list() []any {
	tools := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		tool := s.Tools[name]
		listed := map[string]any{"name": name, "description": tool.Description, "inputSchema": tool.InputSchema}
		if len(tool.Annotations) > 0 {
			listed["annotations"] = tool.Annotations
		}
		tools = append(tools, listed)
	}
	return tools
}

// call returns the result of a tool call and how long to wait with it, or nil if the tool does
// not exist or the arguments are not an object.
func (p *Player) call(params json.RawMessage) (any, time.Duration) {
	name := jsontext.Word(jsontext.Member(params, "name"))
	tool := p.server.Tools[name]
	if tool == nil {
		return nil, 0
	}
	arguments := map[string]any{}
	if raw := jsontext.Member(params, "arguments"); len(raw) > 0 && string(raw) != "null" {
		parsed, err := jsontext.Parse(raw)
		given, ok := parsed.(map[string]any)
		if err != nil || !ok {
			return nil, 0
		}
		arguments = given
	}
	given, miss := p.answers.Ask("", map[string]any{"tool": name, "arguments": arguments})
	if miss == nil {
		return given.Value, given.Delay
	}
	message := "no response of the mock matches the call of %s with %s"
	if miss.Spent {
		message = "the sequence of the mock has no more steps for the call of %s with %s"
	}
	message = fmt.Sprintf(message, name, text.Shorten(jsontext.Encode(arguments), maxShown))
	p.unmatched(message)
	return toolError(message), 0
}

// maxShown is the maximum length of the arguments in a message, in bytes.
const maxShown = 2000
