package mock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/sandbox/process"
)

// versions lists the supported protocol versions, the newest last.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Start starts a session with the server. It calls unmatched for each call without a
// matching response.
func (s *Server) Start(unmatched func(message string)) process.Process {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &session{server: s, unmatched: unmatched, stdin: stdin, stdout: stdout, in: in, done: make(chan struct{})}
	go p.serve(out)
	return p
}

// session is a conversation over stdio.
type session struct {
	server    *Server
	unmatched func(string)
	stdin     *io.PipeWriter
	stdout    *io.PipeReader
	in        *io.PipeReader
	done      chan struct{}
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

// serve answers messages, one per line, until either side closes.
func (p *session) serve(out *io.PipeWriter) {
	defer close(p.done)
	defer func() { _ = out.Close() }()
	in := bufio.NewReader(p.in)
	for {
		line, err := in.ReadBytes('\n')
		if answer := p.server.handle(line, p.unmatched); answer != nil {
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// handle returns the response to one message, or nil if it needs none.
func (s *Server) handle(line []byte, unmatched func(string)) []byte {
	r, err := jsonrpc.ReadOne(line)
	if err != nil || !r.IsRequest() {
		return nil
	}
	switch r.Method {
	case "initialize":
		return jsonrpc.Answer(r.ID, s.initialize(r.Params))
	case "ping":
		return jsonrpc.Answer(r.ID, struct{}{})
	case "tools/list":
		return jsonrpc.Answer(r.ID, map[string]any{"tools": s.list()})
	case "tools/call":
		if result := s.call(r.Params, unmatched); result != nil {
			return jsonrpc.Answer(r.ID, result)
		}
		return jsonrpc.Refuse(r.ID, jsonrpc.InvalidParams, "tools/call needs the name of a tool of this server, and arguments that are an object")
	}
	return jsonrpc.Refuse(r.ID, jsonrpc.MethodNotFound, "a mock server answers initialize, ping, tools/list and tools/call")
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
		tools = append(tools, map[string]any{"name": name, "description": s.Tools[name].Description, "inputSchema": s.Tools[name].InputSchema})
	}
	return tools
}

// call returns the result of a tool call, or nil if the tool does not exist or the
// arguments are not an object.
func (s *Server) call(params json.RawMessage, unmatched func(string)) any {
	name := jsontext.Word(jsontext.Member(params, "name"))
	tool := s.Tools[name]
	if tool == nil {
		return nil
	}
	arguments := map[string]any{}
	if raw := jsontext.Member(params, "arguments"); len(raw) > 0 && string(raw) != "null" {
		parsed, err := jsontext.Parse(raw)
		given, ok := parsed.(map[string]any)
		if err != nil || !ok {
			return nil
		}
		arguments = given
	}
	if response := tool.answer(arguments); response != nil {
		return response.result()
	}
	given := text.Shorten(textOf(arguments), maxShown)
	message := fmt.Sprintf("no response of the mock matches the call of %s with %s", name, given)
	unmatched(message)
	return toolError(message)
}

// maxShown is the maximum length of the arguments in a message, in bytes.
const maxShown = 2000
