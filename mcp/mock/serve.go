package mock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/sandbox/process"
)

// versions lists the supported protocol versions, the newest last.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Player plays a server in one trial. It remembers which answers were given.
type Player struct {
	server  *Server
	answers *cassette.Player
	trial   int
	missed  func(error)

	// Live answers requests that the cassette has no answer for; nil to report them as missed. It
	// returns a result or an error.
	Live func(method string, params json.RawMessage) (result, failure json.RawMessage)
}

// Play returns a player of the server for a trial. It calls missed with a message about each
// request without an answer.
func (s *Server) Play(trial int, missed func(error)) *Player {
	return &Player{server: s, answers: s.side.Play(), trial: trial, missed: missed}
}

// Start starts a session with the server, for the agent or another sender.
func (p *Player) Start(by evidence.Sender) process.Process {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &session{player: p, by: by, stdin: stdin, stdout: stdout, in: in, ended: make(chan struct{}), done: make(chan struct{})}
	go s.serve(out)
	return s
}

// session is a conversation over stdio.
type session struct {
	player *Player
	by     evidence.Sender
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
		switch answer, delay, ask := p.player.handle(p.by, line); {
		case ask != nil:
			delayed.Go(func() { _, _ = out.Write(append(ask(), '\n')) })
		case answer == nil:
		case delay > 0:
			delayed.Go(func() {
				select {
				case <-time.After(delay):
					_, _ = out.Write(append(answer, '\n')) // fails if nobody reads any more
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

// handle returns the response to one message, or nil if it needs none, and the delay before sending
// it; or a function that gets the response.
func (p *Player) handle(by evidence.Sender, line []byte) (answer []byte, delay time.Duration, ask func() []byte) {
	r, err := jsonrpc.ReadOne(line)
	if err != nil || !r.IsRequest() {
		return nil, 0, nil
	}
	if r.Method == methodPing {
		return jsonrpc.Answer(r.ID, struct{}{}), 0, nil
	}
	asked := Request(r.Method, r.Params)
	if no := p.server.refuses(r, asked); no != nil {
		return no, 0, nil
	}
	asked["trial"], asked["sender"] = json.Number(strconv.Itoa(p.trial)), string(by)
	given, miss := p.answers.Ask("", asked)
	if miss != nil && p.Live != nil {
		return nil, 0, func() []byte {
			result, failure := p.Live(r.Method, r.Params)
			if failure != nil {
				return jsonrpc.Fail(r.ID, failure)
			}
			return jsonrpc.Answer(r.ID, result)
		}
	}
	if miss != nil {
		delete(asked, "trial") // trial is not part of the request
		delete(asked, "sender")
		if asked["tool"] != nil {
			delete(asked, "method")
		}
		return p.unanswered(r, asked, miss), 0, nil
	}
	if failure := jsontext.Member(given.Value, "error"); failure != nil {
		return jsonrpc.Fail(r.ID, failure), given.Delay, nil
	}
	result := jsontext.Member(given.Value, "result")
	if r.Method == methodInitialize {
		result = negotiated(result, jsontext.Word(jsontext.Member(r.Params, "protocolVersion")))
	}
	return jsonrpc.Answer(r.ID, json.RawMessage(result)), given.Delay, nil
}

// File returns the answer to a grader's request for a file of the server, as an
// [evidence.FileAnswer]. Conditions use the member file.
func (p *Player) File(path string, content bool) (json.RawMessage, error) {
	given, miss := p.answers.Ask("", map[string]any{"file": path, "content": content, "trial": json.Number(strconv.Itoa(p.trial)), "sender": string(evidence.SenderRunner)})
	if miss != nil {
		p.missed(miss)
		return nil, miss
	}
	return jsontext.Member(given.Value, "result"), nil
}

// Methods with special handling.
const (
	methodPing       = "ping"
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodList       = "tools/list"
	methodCall       = "tools/call"
)

// Request returns the members of a request that conditions of a server's entries refer to: the tool
// and arguments of a call, and the method and parameters of other requests, without members that
// clients add to every request.
func Request(method string, params json.RawMessage) map[string]any {
	asked := map[string]any{"method": method}
	given, _ := jsontext.Parse(params)
	members, _ := given.(map[string]any)
	tool, named := members["name"].(string)
	switch {
	case method == methodCall && named:
		asked["tool"] = tool
		if asked["arguments"] = members["arguments"]; members["arguments"] == nil {
			asked["arguments"] = map[string]any{}
		}
	case method == methodInitialize, method == methodDiscover:
	default:
		delete(members, "_meta")
		if len(members) > 0 {
			asked["params"] = members
		}
	}
	return asked
}

// negotiated returns the recorded result of initialize for a client that requests a version. If
// that is a known version older than the recorded one, the result has it, since servers support
// older versions too.
func negotiated(result json.RawMessage, version string) json.RawMessage {
	had := jsontext.Word(jsontext.Member(result, "protocolVersion"))
	if version >= had || !slices.Contains(versions, version) {
		return result
	}
	var members map[string]json.RawMessage
	if jsontext.Unmarshal(result, &members) != nil {
		return result
	}
	members["protocolVersion"] = json.RawMessage(`"` + version + `"`)
	changed, err := jsontext.Marshal(members)
	if err != nil {
		return result
	}
	return changed
}

// refuses returns the error response to a request that a server of mcp_mocks does not support, or
// nil.
func (s *Server) refuses(r jsonrpc.Message, asked map[string]any) []byte {
	name, _ := asked["tool"].(string)
	_, isObject := asked["arguments"].(map[string]any)
	switch {
	case s.played, r.Method == methodInitialize, r.Method == methodList:
		return nil
	case r.Method != methodCall:
		return jsonrpc.Refuse(r.ID, jsonrpc.MethodNotFound, "a mock server answers initialize, ping, tools/list and tools/call")
	case s.Tools[name] == nil || !isObject:
		return jsonrpc.Refuse(r.ID, jsonrpc.InvalidParams, "tools/call needs the name of a tool of this server, and arguments that are an object")
	}
	return nil
}

// unanswered returns the response to a request without an answer.
func (p *Player) unanswered(r jsonrpc.Message, asked map[string]any, miss *cassette.Miss) []byte {
	if !p.server.played {
		why := "no response of the mock matches the call of %s with %s"
		if miss.Spent {
			why = "the sequence of the mock has no more steps for the call of %s with %s"
		}
		err := fmt.Errorf(why, asked["tool"], text.Shorten(jsontext.Encode(asked["arguments"]), maxShown))
		p.missed(err)
		return jsonrpc.Answer(r.ID, toolError(err.Error()))
	}
	if r.Method == methodDiscover || miss.Nearest < 0 && listsMore(r.Method) {
		return jsonrpc.Refuse(r.ID, jsonrpc.MethodNotFound, "the server has no such method")
	}
	p.missed(miss)
	return jsonrpc.Refuse(r.ID, jsonrpc.InternalError, miss.Error())
}

// listsMore reports whether a method requests a list other than that of tools, which waza itself
// requests. Whether an agent requests one before it ends depends on timing.
func listsMore(method string) bool {
	return slices.ContainsFunc(catalog.Kinds(), func(k catalog.Kind) bool {
		lists, _ := k.Request()
		return k != catalog.Tools && method == lists
	})
}

// maxShown is the maximum length of the arguments in a message, in bytes.
const maxShown = 2000
