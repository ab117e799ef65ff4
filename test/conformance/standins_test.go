package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/answer"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// standin is a server in one process, or one endpoint. hear is called with each message; it
// writes bytes to its client with say and reads the client's next message with next. It returns
// false to exit.
type standin struct {
	name string
	// differs says why the capture or a question has another outcome than the agent; else empty.
	differs string
	http    func() http.HandlerFunc // instead of hear
	hear    func(s *conversation, m jsonrpc.Message) bool
	answers answer.Table // that the agent has; not the runner, whose questions are no task's
}

type conversation struct {
	say   func(raw string)
	next  func() (jsonrpc.Message, bool)
	calls int
}

const (
	hello   = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	noSuch  = `"error":{"code":-32601,"message":"no such method"}`
	fine    = `"result":{"content":[{"type":"text","text":"fine"}]}`
	tools   = `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	lineEnd = "\n"
)

func answered(m jsonrpc.Message, rest string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.ID.Raw) + `,` + rest + `}`
}

// usual returns the answer of an ordinary server to what is no call.
func usual(m jsonrpc.Message) string {
	switch m.Method {
	case "initialize":
		return answered(m, hello)
	case "tools/list":
		return answered(m, tools)
	}
	return answered(m, noSuch)
}

// calling returns a server that is ordinary but for its answers to calls.
func calling(called func(s *conversation, m jsonrpc.Message) bool) func(*conversation, jsonrpc.Message) bool {
	return func(s *conversation, m jsonrpc.Message) bool {
		if !m.IsRequest() {
			return true
		}
		if m.Method != "tools/call" {
			s.say(usual(m) + lineEnd)
			return true
		}
		s.calls++
		return called(s, m)
	}
}

// answering returns a server that answers calls with the bytes in which @ID@ is the request's id.
func answering(raw string) func(*conversation, jsonrpc.Message) bool {
	return calling(func(s *conversation, m jsonrpc.Message) bool {
		s.say(strings.ReplaceAll(raw, "@ID@", string(m.ID.Raw)))
		return true
	})
}

// framing returns a server that sends each message in a frame of its own kind.
func framing(frame func(raw string) string) func(*conversation, jsonrpc.Message) bool {
	return func(s *conversation, m jsonrpc.Message) bool {
		if !m.IsRequest() {
			return true
		}
		raw := usual(m)
		if m.Method == "tools/call" {
			raw = answered(m, fine)
		}
		s.say(frame(raw))
		return true
	}
}

// asking returns a server that asks its client within a call and then answers fine, whatever the
// client says.
func asking(request string) func(*conversation, jsonrpc.Message) bool {
	return calling(func(s *conversation, m jsonrpc.Message) bool {
		s.say(`{"jsonrpc":"2.0","id":"mine",` + request + `}` + lineEnd)
		_, more := s.next()
		s.say(answered(m, fine) + lineEnd)
		return more
	})
}

// requiring returns a server that asks its client within a call, and answers fine if it gets a result.
func requiring(request string) func(*conversation, jsonrpc.Message) bool {
	return calling(func(s *conversation, m jsonrpc.Message) bool {
		s.say(`{"jsonrpc":"2.0","id":"mine",` + request + `}` + lineEnd)
		got, more := s.next()
		if got.Result == nil {
			s.say(answered(m, noSuch) + lineEnd)
			return more
		}
		s.say(answered(m, fine) + lineEnd)
		return more
	})
}

// stateless returns a server of 2026-07-28.
func stateless(called string) func(*conversation, jsonrpc.Message) bool {
	return func(s *conversation, m jsonrpc.Message) bool {
		switch {
		case !m.IsRequest():
		case m.Method == "server/discover":
			s.say(answered(m, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`) + lineEnd)
		case m.Method == "tools/call" && jsontext.Member(m.Params, "inputResponses") != nil:
			s.say(answered(m, `"result":{"resultType":"complete","content":[]}`) + lineEnd)
		case m.Method == "tools/call":
			s.say(answered(m, called) + lineEnd)
		default:
			s.say(answered(m, noSuch) + lineEnd)
		}
		return true
	}
}

// endpoint returns a server on streamable HTTP with sessions that is ordinary but for what called
// does with a call. It gets the number of the session and of the call in it.
func endpoint(called func(w http.ResponseWriter, m jsonrpc.Message, session, call int)) func() http.HandlerFunc {
	return func() http.HandlerFunc {
		var mu sync.Mutex
		sessions, calls := 0, 0
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			m, err := jsonrpc.ReadOne(body)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Method != http.MethodPost:
				w.WriteHeader(http.StatusMethodNotAllowed)
			case err != nil || !m.IsRequest():
				w.WriteHeader(http.StatusAccepted)
			case m.Method == "tools/call":
				calls++
				called(w, m, sessions, calls)
			default:
				if m.Method == "initialize" {
					sessions, calls = sessions+1, 0
					w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", sessions))
				}
				send(w, "application/json", usual(m))
			}
		}
	}
}

func send(w http.ResponseWriter, kind, body string) {
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, body)
}

// sending returns a server on streamable HTTP that answers calls with a body, in which @ID@ is the
// request's id.
func sending(kind, body string) func() http.HandlerFunc {
	return endpoint(func(w http.ResponseWriter, m jsonrpc.Message, _, _ int) {
		send(w, kind, strings.ReplaceAll(body, "@ID@", string(m.ID.Raw)))
	})
}

// early asks for roots as soon as its client is there, and answers calls once it has got them.
func early(s *conversation, m jsonrpc.Message) bool {
	switch {
	case m.Method == "notifications/initialized":
		s.say(`{"jsonrpc":"2.0","id":"mine","method":"roots/list"}` + lineEnd)
	case m.Method == "" && m.Result != nil:
		s.calls++
	case m.Method == "tools/call":
		for s.calls == 0 {
			got, more := s.next()
			if !more {
				return false
			}
			if got.Result != nil {
				s.calls++
			}
		}
		s.say(answered(m, fine) + lineEnd)
	case m.IsRequest():
		s.say(usual(m) + lineEnd)
	}
	return true
}

// answers are those of a task.
func answers() answer.Table {
	of := answer.Server{
		Elicitation: &answer.Answer{Result: []byte(`{"action":"accept","content":{}}`)},
		Sampling:    &answer.Answer{Action: "decline"},
		Roots:       &answer.Answer{Result: []byte(`{"roots":[]}`)},
	}
	for _, kind := range input.Kinds() {
		if err := of.Of(kind).Compile(kind); err != nil {
			panic(err)
		}
	}
	return answer.Table{"s": of}
}

func standins() []standin {
	const whole = `{"jsonrpc":"2.0","id":@ID@,` + fine + `}`
	const stream = "text/event-stream"
	return []standin{
		{name: "ordinary", hear: answering(whole + "\n")},
		{name: "ids as texts", hear: answering(`{"jsonrpc":"2.0","id":"@ID@",` + fine + "}\n")},
		{name: "ids as decimals", hear: answering(`{"jsonrpc":"2.0","id":@ID@.0,` + fine + "}\n")},
		{name: "ids with an exponent", hear: answering(`{"jsonrpc":"2.0","id":@ID@e0,` + fine + "}\n")},
		{name: "errors without id", hear: answering(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}` + "\n")},
		{name: "an answer to nobody first", hear: answering(`{"jsonrpc":"2.0","id":"other",` + fine + "}\n" + whole + "\n")},
		{name: "every answer twice", hear: answering(whole + "\n" + whole + "\n")},
		{name: "a byte order mark", hear: framing(func(raw string) string { return "\xef\xbb\xbf" + raw + "\n" })},
		{name: "CR LF", hear: framing(func(raw string) string { return raw + "\r\n" })},
		{name: "empty lines", hear: framing(func(raw string) string { return "\n" + raw + "\n\n" })},
		{name: "a banner", hear: framing(func(raw string) string { return "Listening on stdio\n" + raw + "\n" })},
		{name: "codes as texts", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"error":{"code":"E42","message":"no"}}` + "\n")},
		{name: "errors as texts", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"error":"no"}` + "\n")},
		{name: "result and error", hear: answering(`{"jsonrpc":"2.0","id":@ID@,` + fine + `,"error":{"code":-1,"message":"no"}}` + "\n")},
		{name: "no version", hear: answering(`{"id":@ID@,` + fine + "}\n")},
		{name: "no content", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":{}}` + "\n")},
		{name: "structured content alone", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":{"structuredContent":{"n":1}}}` + "\n")},
		{name: "a result that is a list", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":[]}` + "\n")},
		{name: "isError as a text", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"isError":"true"}}` + "\n")},
		{name: "isError twice", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"isError":false,"isError":true}}` + "\n")},
		{name: "NaN", hear: answering(`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"n":NaN}}` + "\n")},
		{name: "a batch of one", hear: framing(func(raw string) string { return "[" + raw + "]\n" })},
		{name: "a notification first", hear: answering(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n" + whole + "\n")},
		{name: "sampling within a call", hear: asking(`"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}`)},
		{name: "elicitation within a call", hear: asking(`"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`)},
		{name: "roots within a call", hear: asking(`"method":"roots/list"`)},
		{name: "elicitation within a call, answered", differs: "nobody answers during a grader's question", answers: answers(),
			hear: requiring(`"method":"elicitation/create","params":{"message":"who?"}`)},
		{name: "sampling within a call, declined", answers: answers(), hear: requiring(`"method":"sampling/createMessage","params":{"messages":[]}`)},
		{name: "roots before a call, answered", differs: "nobody answers during a grader's question", answers: answers(), hear: early},
		{name: "a ping within a call", hear: asking(`"method":"ping"`)},
		{name: "dies in the first call", hear: calling(func(*conversation, jsonrpc.Message) bool { return false })},
		{name: "dies between calls", hear: calling(func(s *conversation, m jsonrpc.Message) bool {
			s.say(answered(m, fine) + "\n")
			return false
		})},
		{name: "dies within an answer", hear: calling(func(s *conversation, m jsonrpc.Message) bool {
			s.say(answered(m, fine)[:20])
			return false
		})},
		{name: "takes long to start", hear: func(s *conversation, m jsonrpc.Message) bool {
			if s.calls++; s.calls == 1 {
				time.Sleep(300 * time.Millisecond)
			}
			return framing(func(raw string) string { return raw + "\n" })(s, m)
		}},
		{name: "2026-07-28", hear: stateless(`"result":{"resultType":"complete","content":[]}`)},
		{name: "2026-07-28 with rounds", differs: "the agent gives up, so its call counts as cancelled", hear: stateless(`"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`)},
		{name: "2026-07-28 with rounds, answered", differs: "nobody answers during a grader's question", answers: answers(),
			hear: stateless(`"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}`)},
		{name: "over HTTP", http: sending("application/json", whole)},
		{name: "over HTTP with a byte order mark", http: sending("application/json", "\xef\xbb\xbf"+whole)},
		{name: "over HTTP as a batch", http: sending("application/json", "["+whole+"]")},
		{name: "over HTTP as HTML", http: sending("text/html", "<html>")},
		{name: "over HTTP without an answer", http: endpoint(func(w http.ResponseWriter, _ jsonrpc.Message, _, _ int) { w.WriteHeader(http.StatusAccepted) })},
		{name: "over HTTP with CR", http: sending(stream, "data: "+whole+"\r\r")},
		{name: "over HTTP in events with a byte order mark", http: sending(stream, "\xef\xbb\xbfdata: "+whole+"\n\n")},
		{name: "over HTTP in a stream that is cut", http: sending(stream, "data: "+whole[:20])},
		{name: "over HTTP in a stream without an answer", http: sending(stream, ": nothing\n\n")},
		{name: "over HTTP with a session that ends once", http: endpoint(func(w http.ResponseWriter, m jsonrpc.Message, session, call int) {
			if session%2 == 1 && call == 1 {
				http.Error(w, "no such session", http.StatusNotFound)
				return
			}
			send(w, "application/json", answered(m, fine))
		})},
		{name: "over HTTP with sessions that all end", differs: "each call is made twice", http: endpoint(func(w http.ResponseWriter, m jsonrpc.Message, _, _ int) {
			http.Error(w, "no such session", http.StatusNotFound)
		})},
		{name: "over HTTP with a status of 500", http: endpoint(func(w http.ResponseWriter, m jsonrpc.Message, _, _ int) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		})},
	}
}

// Each server has one outcome: for the agent, in the capture, and for a grader's question. The
// table is written to a golden file.
func TestStandIns(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-44s %-10s %-34s %-34s %s\n", "server", "probe", "agent, two calls", "capture", "a grader's question")
	for _, s := range standins() {
		t.Run(s.name, func(t *testing.T) {
			server := s.server(t)
			rec := &recorder{}
			probe := probed(t, rec, server)
			p := proxy.New(rec, proxy.Limits{}, proxy.Server{Server: server})
			agent := called(t, p, s.answers)
			if err := p.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			question := asked(t, p)
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			captured := rec.outcomes(t)
			fmt.Fprintf(&table, "%-44s %-10s %-34s %-34s %s\n", s.name, probe, strings.Join(agent, " "), strings.Join(captured, " "), question)
			if probe != "answers" { // a trial ends here
				if len(captured) > 0 || question != probe {
					t.Errorf("a server that %s answered to calls: %v; and to a question: %s", probe, captured, question)
				}
				return
			}
			one := slices.Equal(agent, captured) && question == captured[0]
			if one != (s.differs == "") {
				t.Errorf("the agent had %v, a question %s, and the capture says %v", agent, question, captured)
			}
		})
	}
	golden.Check(t, filepath.Join("testdata", "standins.txt"), table.String())
}

// server returns the server as the runner knows it.
func (s standin) server(t *testing.T) transport.Server {
	server := transport.Server{Name: "s", Start: 2 * time.Second, Timeout: 2 * time.Second, Grace: 200 * time.Millisecond}
	if s.http == nil {
		server.Launch = func(context.Context) (process.Process, error) { return start(s.hear), nil }
		return server
	}
	there := httptest.NewServer(s.http())
	t.Cleanup(there.Close)
	where, err := url.Parse(there.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	server.Upstream = &transport.Upstream{URL: where, Transport: &http.Transport{DisableKeepAlives: true}}
	return server
}

// program is a server as a process of this test.
type program struct {
	in, stdout *io.PipeReader
	stdin, out *io.PipeWriter
	ended      chan struct{}
}

func start(hear func(*conversation, jsonrpc.Message) bool) process.Process {
	p := &program{ended: make(chan struct{})}
	p.in, p.stdin = io.Pipe()
	p.stdout, p.out = io.Pipe()
	go func() {
		defer close(p.ended)
		defer func() { _, _ = p.in.Close(), p.out.Close() }()
		lines := bufio.NewReader(p.in)
		s := &conversation{say: func(raw string) { _, _ = io.WriteString(p.out, raw) }}
		s.next = func() (jsonrpc.Message, bool) {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return jsonrpc.Message{}, false
			}
			m, err := jsonrpc.ReadOne(line)
			return m, err == nil
		}
		for {
			m, ok := s.next()
			if !ok || !hear(s, m) {
				return
			}
		}
	}()
	return p
}

func (p *program) Stdin() io.WriteCloser { return p.stdin }
func (p *program) Stdout() io.Reader     { return p.stdout }
func (p *program) Stderr() io.Reader     { return strings.NewReader("") }

func (p *program) Signal(process.Signal) error {
	_, _ = p.in.Close(), p.out.Close()
	return nil
}

func (p *program) Wait() (process.Exit, error) {
	<-p.ended
	return process.Exit{Code: 3}, nil
}

// recorder keeps frames.
type recorder struct {
	mu     sync.Mutex
	frames []evidence.Frame
}

func (r *recorder) Frame(f evidence.Frame) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Seq, f.Raw = int64(len(r.frames)+1), bytes.Clone(f.Raw)
	r.frames = append(r.frames, f)
	return f.Seq
}

func (r *recorder) Event(evidence.Event) {}

// outcomes returns the outcomes of the captured calls. A call that was made again in another
// session counts once.
func (r *recorder) outcomes(t *testing.T) (all []string) {
	got, err := capture.Calls(func() iter.Seq2[evidence.Frame, error] {
		return func(yield func(evidence.Frame, error) bool) {
			for _, f := range r.frames {
				if !yield(f, nil) {
					return
				}
			}
		}
	}())
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range got.Calls {
		expired := slices.ContainsFunc(call.Notes, func(note string) bool { return strings.HasPrefix(note, capture.NoteExpired) })
		if !expired {
			all = append(all, string(call.Outcome))
		}
	}
	return all
}

// probed returns how the probe of a server ends.
func probed(t *testing.T, rec *recorder, server transport.Server) string {
	p := proxy.New(rec, proxy.Limits{}, proxy.Server{Server: server})
	defer func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	_, _, err := client.Probe(t.Context(), rec, p.Own("s"), nil, false)
	if err != nil {
		return classOf(err)
	}
	return "answers"
}

func classOf(err error) string {
	if failed, ok := errors.AsType[*client.Error](err); ok {
		return failed.Class.Error()
	}
	return err.Error()
}

// called returns the outcomes of two calls by the agent script through a proxy.
func called(t *testing.T, p *proxy.Proxy, answers answer.Table) []string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.Serve(ctx, listener, p.Handler("s")) })
	defer serving.Wait()
	defer cancel()
	config := filepath.Join(t.TempDir(), "mcp.json")
	servers := fmt.Sprintf(`{"mcpServers":{"s":{"type":"http","url":"http://%s/mcp"}}}`, listener.Addr())
	if err := os.WriteFile(config, []byte(servers), 0o600); err != nil {
		t.Fatal(err)
	}
	runner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q input.Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(answers.Reply(q)); err != nil {
			t.Error(err)
		}
	}))
	defer runner.Close()
	var said bytes.Buffer
	err = script.Run(ctx, input.Input{
		MCPConfig: config, Workspace: t.TempDir(), Early: olds(t), Answers: &input.Answers{URL: runner.URL, Kinds: answers.Kinds()},
		Script: []byte(`[{"call":{"server":"s","tool":"x","expect":"any"},"as":"a"},{"sleep":"50ms"},
			{"call":{"server":"s","tool":"x","expect":"any"},"as":"b"},{"say":"{{ a.outcome }} {{ b.outcome }}"}]`),
	}, &said, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(said.String())
}

// olds returns the servers whose sessions begin with initialize.
func olds(t *testing.T) []string {
	if strings.Contains(t.Name(), "2026") {
		return nil
	}
	return []string{"s"}
}

// asked returns the outcome of a call by the runner, in a session of its own.
func asked(t *testing.T, p *proxy.Proxy) string {
	q, err := client.Open(t.Context(), p.Own("s"))
	if err != nil {
		return classOf(err)
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	reply, err := q.Call(ctx, "x", nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return string(evidence.OutcomeTimeout)
	case err != nil:
		return string(evidence.OutcomeTransportError)
	}
	outcome, _ := q.Outcome(reply)
	return string(outcome)
}
