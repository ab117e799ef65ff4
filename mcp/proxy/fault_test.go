package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// answeringCalls is a server on streamable HTTP that answers a call with its parameters, as JSON or as a
// stream, and counts calls.
func answeringCalls(t *testing.T, stream bool, got func()) proxy.Server {
	return proxy.Server{Server: transport.Server{Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		raw := readAll(r.Body)
		sent, err := parse(raw)
		if err != nil || !asks(sent) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := string(jsontext.Member(raw, "params"))
		if sent[0].Method == methodInitialize {
			w.Header().Set(headerSession, "s1")
			result = `{"protocolVersion":"2025-11-25"}`
		} else {
			got()
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, sent[0].ID.Raw, result)
		if stream {
			written(w, "id: 5\ndata: "+answer+"\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})}}
}

// TestFaults holds for every transport what an agent gets of each fault, what the record says of it, and
// that the next call has none.
func TestFaults(t *testing.T) {
	t.Parallel()
	type want struct {
		outcome evidence.Outcome
		reaches bool // the server gets the call
		check   func(r *http.Response, body, plain string, err error) bool
	}
	broken := func(_ *http.Response, body, _ string, err error) bool { return err != nil && body == "" }
	cases := map[evidence.FaultKind]want{
		evidence.FaultToolError: {evidence.OutcomeToolError, false, func(_ *http.Response, body, _ string, err error) bool {
			return err == nil && strings.Contains(body, `"isError":true`) && strings.Contains(body, "out of order") && strings.Contains(body, `"id":1`)
		}},
		evidence.FaultError: {evidence.OutcomeProtocolError, false, func(_ *http.Response, body, _ string, err error) bool {
			return err == nil && strings.Contains(body, `"code":-32603,"message":"out of order"`)
		}},
		evidence.FaultKill: {evidence.OutcomeTransportError, false, func(_ *http.Response, body, _ string, err error) bool {
			return err == nil && strings.Contains(body, "was ended by SIGKILL")
		}},
		evidence.FaultDelay: {evidence.OutcomeOK, true, func(_ *http.Response, body, plain string, err error) bool { return err == nil && body == plain }},
		evidence.FaultSlow:  {evidence.OutcomeOK, true, func(_ *http.Response, body, plain string, err error) bool { return err == nil && body == plain }},
		evidence.FaultDrop:  {evidence.OutcomeTransportError, true, broken},
		evidence.FaultTruncate: {evidence.OutcomeTransportError, true, func(_ *http.Response, body, plain string, err error) bool {
			return err != nil && len(body) > 0 && len(body) < len(plain)
		}},
		evidence.FaultInvalid: {evidence.OutcomeTransportError, true, func(_ *http.Response, body, _ string, err error) bool {
			return err == nil && strings.HasPrefix(body, `{"jsonrpc"`) && !json.Valid([]byte(body))
		}},
		evidence.FaultWrongID: {evidence.OutcomeTransportError, true, func(_ *http.Response, body, plain string, err error) bool {
			return err == nil && !strings.Contains(body, `"id":1,`) && strings.Contains(body, "9007199254740993")
		}},
		evidence.FaultLate: {evidence.OutcomeTimeout, true, func(_ *http.Response, body, _ string, err error) bool {
			return err == nil && strings.Contains(body, "did not answer within")
		}},
		evidence.FaultChanged: {evidence.OutcomeOK, true, func(r *http.Response, body, plain string, err error) bool {
			return err == nil && strings.Contains(body, "notifications/tools/list_changed") && strings.HasSuffix(body, plain)
		}},
	}
	for _, over := range []string{"stdio", "JSON", "stream"} {
		for kind, want := range cases {
			if kind == evidence.FaultKill && over != "stdio" {
				continue // which evals cannot have
			}
			t.Run(over+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				reached := make(chan struct{}, 10)
				server := proxy.Server{Server: transport.Server{Launch: launching(t, "scripted")}}
				if over != "stdio" {
					server = answeringCalls(t, over == "stream", func() { reached <- struct{}{} })
				}
				made := cassette.Fault{Server: "s", Kind: kind, Nth: 2}
				switch kind {
				case evidence.FaultDelay, evidence.FaultSlow, evidence.FaultLate:
					made.DelayMS = 200
				case evidence.FaultToolError, evidence.FaultError:
					made.Message = "out of order"
				}
				if _, err := made.Compile(); err != nil {
					t.Fatal(err)
				}
				next := cassette.NewFaults([]cassette.Fault{made}, "t", 1).Of(cassette.Servers, "s")
				server.Name, server.Fault = "s", func(json.RawMessage) *cassette.Fault { return next(nil) }
				b := newBench(t, quick(), server)
				session := b.open()
				ask := func(session string) (*http.Response, string, error) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://s/mcp", strings.NewReader(calling("read")))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json, text/event-stream")
					r.Header.Set(headerSession, session)
					answer, err := b.client.Do(r)
					if err != nil {
						return nil, "", err
					}
					defer answer.Body.Close()
					body, err := io.ReadAll(answer.Body)
					return answer, messageOf(string(body)), err
				}
				_, plain, err := ask(session)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				answer, body, err := ask(session)
				if !want.check(answer, body, plain, err) {
					t.Errorf("the agent got %q, %v; without a fault %q", body, err, plain)
				}
				if took := time.Since(began); made.DelayMS > 0 && took < 150*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if kind == evidence.FaultKill {
					exit := b.rec.event(t, "server_exit")
					if exit.Data["asked"] != true { // its stdin ends first, which may end it too
						t.Errorf("the exit is %+v", exit)
					}
					session = b.open()
				}
				if _, again, err := ask(session); err != nil || again != plain {
					t.Errorf("the next call got %q, %v", again, err)
				}
				if n := len(reached); over != "stdio" && n != 2+map[bool]int{true: 1}[want.reaches] {
					t.Errorf("the server got %d calls", n)
				}
				result, err := capture.Calls(b.rec.sequence())
				if err != nil || len(result.Gaps) > 0 || len(result.Calls) != 3 {
					t.Fatalf("calls %+v, gaps %v, %v", result.Calls, result.Gaps, err)
				}
				for i, call := range result.Calls {
					fault, outcome := evidence.FaultKind(""), evidence.OutcomeOK
					if i == 1 {
						fault, outcome = kind, want.outcome
					}
					if call.Fault != fault || call.Outcome != outcome {
						t.Errorf("call %d has fault %q and outcome %s", i+1, call.Fault, call.Outcome)
					}
				}
				event := b.rec.event(t, evidence.EventFault)
				if event.Where != "s" || event.Data["fault"] != string(kind) || event.Data["tool"] != "read" {
					t.Errorf("the event is %+v", event)
				}
				truth := slices.ContainsFunc(b.rec.all(), func(f evidence.Frame) bool {
					return f.Side == evidence.SideServer && f.Synthetic == "" && strings.Contains(string(f.Raw), "9007199254740993")
				})
				if hidden := want.reaches && kind != evidence.FaultDelay && kind != evidence.FaultSlow; truth != hidden {
					t.Errorf("the server's own answer is on record: %t", truth)
				}
			})
		}
	}
}

// messageOf returns the data of a stream's events, or the body itself.
func messageOf(body string) string {
	if !strings.Contains(body, "data: ") {
		return body
	}
	var data []string
	for line := range strings.SplitSeq(body, "\n") {
		if said, ok := strings.CutPrefix(line, "data: "); ok && said != "" {
			data = append(data, said)
		}
	}
	return strings.Join(data, "\n")
}

// lateSignals is a process that gets signals late enough to exit before, if something else asks it to.
type lateSignals struct{ process.Process }

func (p lateSignals) Signal(signal process.Signal) error {
	time.Sleep(100 * time.Millisecond)
	return p.Process.Signal(signal)
}

// A session that a fault kills takes its other calls along, which have the fault too.
func TestFaultKillsSession(t *testing.T) {
	t.Parallel()
	server := proxy.Server{Server: transport.Server{Name: "s", Launch: func(ctx context.Context) (process.Process, error) {
		p, err := launching(t, "scripted")(ctx)
		return lateSignals{p}, err
	}}}
	server.Fault = func(params json.RawMessage) *cassette.Fault {
		if jsontext.Text(jsontext.Member(params, "name")) == "slow" {
			return nil
		}
		return &cassette.Fault{Server: "s", Kind: evidence.FaultKill}
	}
	b := newBench(t, quick(), server)
	session := b.open()
	other := make(chan string)
	go func() {
		other <- b.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}`).body
	}()
	b.rec.wait(t, "the other call", func(frames []evidence.Frame, _ []evidence.Event) bool {
		return slices.ContainsFunc(frames, func(f evidence.Frame) bool { return strings.Contains(string(f.Raw), "slow") })
	})
	got := b.post(session, calling("read")).body
	if also := <-other; !strings.Contains(got, "was ended by SIGKILL") || !strings.Contains(also, "was ended by") {
		t.Errorf("the agent got %s and %s", got, also)
	}
	result, err := capture.Calls(b.rec.sequence())
	if err != nil || len(result.Calls) != 2 {
		t.Fatalf("calls %+v, %v", result.Calls, err)
	}
	for _, call := range result.Calls {
		if call.Fault != evidence.FaultKill || call.Outcome != evidence.OutcomeTransportError {
			t.Errorf("call of %s has fault %q and outcome %s", call.Tool, call.Fault, call.Outcome)
		}
	}
}

// An agent cannot get what a fault withholds by resuming a stream: what comes before the answer is on
// another stream, or has no id.
func TestFaultNotResumed(t *testing.T) {
	t.Parallel()
	drops := func(json.RawMessage) *cassette.Fault { return &cassette.Fault{Server: "s", Kind: evidence.FaultDrop} }
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold"}}`
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Launch: launching(t, "scripted")}, Fault: drops})
		session := b.open()
		var others sync.WaitGroup
		defer others.Wait()
		others.Go(func() {
			b.rec.wait(t, "the message before the answer", hasFrame(evidence.ToClient, "", "notifications/held"))
			b.post(session, release)
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://s/mcp", strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(headerSession, session)
		answer, err := b.client.Do(r)
		if err != nil {
			return
		}
		defer func() { _ = answer.Body.Close() }()
		if got, err := io.ReadAll(answer.Body); err == nil || bytes.Contains(got, []byte("id:")) || bytes.Contains(got, []byte("result")) {
			t.Errorf("the agent got %q, %v", got, err)
		}
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		server := proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			sent, err := parse(readAll(r.Body))
			if err != nil || !asks(sent) {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set(headerSession, "s1")
			written(w, "id: 4\ndata:\n\n", `id: 5`+"\n"+`data: {"jsonrpc":"2.0","method":"notifications/held"}`+"\n\n",
				`id: 6`+"\n"+`data: {"jsonrpc":"2.0","id":`+string(sent[0].ID.Raw)+`,"result":{"protocolVersion":"2025-11-25"}}`+"\n\n")
		})}, Fault: drops}
		b := newBench(t, quick(), server)
		next := eventsOf(t, b.request(t.Context(), "POST", "s", call, headerSession, b.open()))
		if e := next(); e == nil || e.id != "" || !strings.Contains(e.data, "notifications/held") {
			t.Errorf("the first event is %+v", e)
		}
		if e := next(); e != nil {
			t.Errorf("after it: %+v", e)
		}
	})
}

// An agent that leaves before a late answer has abandoned the call, and a hidden tool has no fault.
func TestFaultLeft(t *testing.T) {
	t.Parallel()
	made := 0
	server := proxy.Server{Server: transport.Server{Name: "s", Launch: launching(t, "scripted")}, Tools: []string{"read"}}
	server.Fault = func(json.RawMessage) *cassette.Fault {
		made++
		return &cassette.Fault{Server: "s", Kind: evidence.FaultLate}
	}
	b := newBench(t, quick(), server)
	session := b.open()
	if got := b.post(session, calling("write")).body; !strings.Contains(got, "Unknown tool") || made != 0 {
		t.Errorf("a hidden tool got %s, with %d faults", got, made)
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		b.rec.wait(t, "the answer", func(frames []evidence.Frame, _ []evidence.Event) bool {
			return slices.ContainsFunc(frames, func(f evidence.Frame) bool { return f.Side == evidence.SideServer })
		})
		leave()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://s/mcp", strings.NewReader(calling("read")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(headerSession, session)
	if _, err := b.client.Do(r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.rec.wait(t, "the end", func(frames []evidence.Frame, _ []evidence.Event) bool {
		return slices.ContainsFunc(frames, func(f evidence.Frame) bool { return f.Synthetic == evidence.SyntheticAbandoned })
	})
	result, err := capture.Calls(b.rec.sequence())
	if err != nil || len(result.Gaps) > 0 || len(result.Calls) != 2 || result.Calls[1].Outcome != evidence.OutcomeAbandoned || result.Calls[1].Fault != evidence.FaultLate {
		t.Errorf("calls %+v, gaps %v, %v", result.Calls, result.Gaps, err)
	}
}
