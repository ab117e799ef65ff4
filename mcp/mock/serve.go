package mock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/sandbox/process"
)

// versions are the protocol versions that a mock speaks, the newest last.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Start begins a session with the server. unmatched is told of each call that no response
// matches.
func (s *Server) Start(unmatched func(message string)) process.Process {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &session{server: s, unmatched: unmatched, stdin: stdin, stdout: stdout, in: in, done: make(chan struct{})}
	go p.serve(out)
	return p
}

// session is one conversation on stdio.
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

// Signal ends the session, whichever it is.
func (p *session) Signal(process.Signal) error {
	_ = p.in.Close() // neither fails
	_ = p.stdout.Close()
	return nil
}

func (p *session) Wait() (process.Exit, error) {
	<-p.done
	return process.Exit{}, nil
}

// serve answers messages, a line each, until either side closes.
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

// request is a JSON-RPC request, or a notification where ID is nil.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// JSON-RPC's error codes.
const (
	methodNotFound = -32601
	invalidParams  = -32602
)

// handle answers one message; nil where there is nothing to answer.
func (s *Server) handle(line []byte, unmatched func(string)) []byte {
	var r request
	if json.Unmarshal(line, &r) != nil || len(r.ID) == 0 || r.Method == "" {
		return nil
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": r.ID}
	switch r.Method {
	case "initialize":
		answer["result"] = s.initialize(r.Params)
	case "ping":
		answer["result"] = struct{}{}
	case "tools/list":
		answer["result"] = map[string]any{"tools": s.list()}
	case "tools/call":
		if result := s.call(r.Params, unmatched); result != nil {
			answer["result"] = result
			break
		}
		answer["error"] = map[string]any{"code": invalidParams, "message": "tools/call needs the name of a tool of this server, and arguments that are an object"}
	default:
		answer["error"] = map[string]any{"code": methodNotFound, "message": "a mock server answers initialize, ping, tools/list and tools/call"}
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	return data
}

func (s *Server) initialize(params json.RawMessage) any {
	var asked struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(params, &asked) // what cannot be read asks for nothing
	if !slices.Contains(versions, asked.ProtocolVersion) {
		asked.ProtocolVersion = versions[len(versions)-1]
	}
	return map[string]any{
		"protocolVersion": asked.ProtocolVersion,
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

// call is the result of a call; nil where it is none of a tool.
func (s *Server) call(params json.RawMessage, unmatched func(string)) any {
	var called struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(params, &called) != nil || s.Tools[called.Name] == nil {
		return nil
	}
	arguments := map[string]any{}
	if raw := bytes.TrimSpace(called.Arguments); len(raw) > 0 && string(raw) != "null" {
		parsed, err := jsonvalue.Parse(raw)
		given, ok := parsed.(map[string]any)
		if err != nil || !ok {
			return nil
		}
		arguments = given
	}
	if response := s.Tools[called.Name].answer(arguments); response != nil {
		return response.result()
	}
	given := text(arguments)
	if len(given) > maxTold {
		given = strings.ToValidUTF8(given[:maxTold], "") + "…"
	}
	message := fmt.Sprintf("no response of the mock matches the call of %s with %s", called.Name, given)
	unmatched(message)
	return toolError(message)
}

// maxTold is how many bytes of a call's arguments are told.
const maxTold = 2000
