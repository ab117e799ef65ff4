package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

func TestNoiseIsKeptAndNotForwarded(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	r := b.post(b.open(), `{"jsonrpc":"2.0","id":1,"method":"noise"}`)
	if r.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("got %q", r.body)
	}
	if e := b.rec.event(t, "stdout_noise"); e.Message != "listening on stdio" || e.Where != "s" || e.Data["conn"] != "s/1" {
		t.Errorf("event: %+v", e)
	}
}

// An answer reaches the agent as it is and ends its call, whatever is wrong with it.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	answers := map[string]evidence.Outcome{
		`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]},"error":null}`:                           evidence.OutcomeOK,
		`{"jsonrpc":"2.0","id":@ID@,"result":null,"error":{"code":-1,"message":"no"}}`:               evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]},"error":{"code":-1,"message":"no"}}`:     evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"method":null,"result":{"content":[]}}`:                          evidence.OutcomeOK,
		`{"jsonrpc":"2.0","id":@ID@,"error":{"code":"E42","message":"no"}}`:                          evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"error":"no"}`:                                                   evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":{"x":NaN}}}`:          evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],}}`:                                       evidence.OutcomeProtocolError,
		`{"id":@ID@,"result":{"content":[]}}`:                                                        evidence.OutcomeOK,
		`{"jsonrpc":"1.0","id":@ID@,"result":{"content":[],"isError":true}}`:                         evidence.OutcomeToolError,
		`{"jsonrpc":"2.0","id":"@ID@","result":{"content":[]}}`:                                      evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`:                             evidence.OutcomeProtocolError,
		`{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]},"result":{"content":[],"isError":true}}`: evidence.OutcomeProtocolError,
		`[{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]}},3]`:                                    evidence.OutcomeOK,
	}
	check := func(t *testing.T, b *bench, session string) {
		t.Helper()
		id := 6
		for line, want := range answers {
			id++
			began := time.Now()
			quoted, _ := json.Marshal(line)
			r := b.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"verbatim","line":%s}}`, id, quoted))
			if sent := strings.ReplaceAll(line, "@ID@", fmt.Sprint(id)); r.body != sent || time.Since(began) > 15*time.Second {
				t.Errorf("after %v the agent got %d %s, want %s", time.Since(began), r.status, r.body, sent)
			}
			result, err := capture.Calls(b.rec.sequence())
			if last := result.Calls[len(result.Calls)-1]; err != nil || len(result.Gaps) > 0 || last.Outcome != want {
				t.Errorf("%s: outcome %s with %q, gaps %v, error %v; want %s", line, last.Outcome, last.Notes, result.Gaps, err, want)
			}
		}
	}
	t.Run("stdio", func(t *testing.T) {
		b := scriptedBench(t, quick(), 0)
		check(t, b, b.open())
	})
	t.Run("stdio, the answer after an error without an id", func(t *testing.T) {
		b := scriptedBench(t, quick(), 0)
		both := `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}` + "\n" + `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
		quoted, _ := json.Marshal(both)
		session := b.open()
		r := b.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"verbatim","line":%s}}`, quoted))
		b.post(session, `{"jsonrpc":"2.0","id":8,"method":"echo"}`) // after it both lines have been read
		result, err := capture.Calls(b.rec.sequence())
		if err != nil || len(result.Calls) != 1 || result.Calls[0].Outcome != evidence.OutcomeProtocolError || !strings.Contains(r.body, `"message":"no"`) {
			t.Errorf("the agent got %s, and the record says %+v, %v", r.body, result.Calls, err)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		b := upstreamBench(t, limits{}, 20*time.Second, func(w http.ResponseWriter, r *http.Request) {
			sent, _ := parse(readAll(r.Body))
			line := jsontext.Text(jsontext.Member(sent[0].Params, "line"))
			io.WriteString(w, strings.ReplaceAll(line, "@ID@", string(sent[0].ID.Raw)))
		})
		check(t, b, "")
	})
}

func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Minute, func(t *testing.T, b *bench) {
		session := b.open()
		r := b.post(session, `{"jsonrpc":"2.0","id":"q","method":"hold"}`)
		if !strings.Contains(r.body, `"id":"q","error":{"code":-32001`) {
			t.Errorf("got %q", r.body)
		}
		b.post(session, `{"jsonrpc":"2.0","method":"release"}`) // its answer is late now
		b.rec.wait(t, "the late answer", hasFrame(evidence.ToClient, "", `"released":true`))
		if !hasFrame(evidence.ToClient, evidence.SyntheticTimeout, `"id":"q"`)(b.rec.all(), nil) {
			t.Error("the timeout is not on record")
		}
		if r := b.post(session, `{"jsonrpc":"2.0","id":"q","method":"echo","params":{"n":2}}`); !strings.Contains(r.body, `"n":2`) {
			t.Errorf("the id is not usable again: %q", r.body)
		}
	})
}

func TestServerThatExitsInACall(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"exit", "closeout"} {
		t.Run(method, func(t *testing.T) {
			b := scriptedBench(t, quick(), 0)
			session := b.open()
			r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)
			if r.status != 200 || !strings.Contains(r.body, `"id":1,"error":{"code":-32000`) || !strings.Contains(r.body, `server \"s\"`) {
				t.Errorf("got %d %q", r.status, r.body)
			}
			if r := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"echo"}`); r.status != 404 {
				t.Errorf("the session lives: %d %q", r.status, r.body)
			}
			exit := b.rec.event(t, "server_exit")
			if exit.Data["asked"] != false || method == "exit" && exit.Data["code"] != 3 {
				t.Errorf("exit: %+v", exit)
			}
			if !hasFrame(evidence.ToClient, evidence.SyntheticTransport, `"id":1`)(b.rec.all(), nil) {
				t.Error("the answer is not on record")
			}
		})
	}
}

func TestAnswersNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	b.post(session, `{"jsonrpc":"2.0","method":"wrongid"}`)
	if r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"twice"}`); !strings.Contains(r.body, `"n":1`) {
		t.Errorf("got %q", r.body)
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"echo","params":{}}`); !strings.Contains(r.body, `"id":2`) {
		t.Errorf("got %q", r.body)
	}
	for _, part := range []string{"nobody", `"n":2`} {
		if !hasFrame(evidence.ToClient, "", part)(b.rec.all(), nil) {
			t.Errorf("%s is not on record", part)
		}
	}
}

func TestLineOverTheLimitEndsTheProcess(t *testing.T) {
	t.Parallel()
	within := quick()
	within.message = 1 << 20
	b := scriptedBench(t, within, 0)
	session := b.open()
	fits := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"big","params":{"size":%d}}`, 1<<20-len(`{"jsonrpc":"2.0","id":1,"result":""}`))
	if r := b.post(session, fits); len(r.body) != 1<<20 {
		t.Fatalf("a line at the limit: %d bytes", len(r.body))
	}
	r := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"big","params":{"size":1048576}}`)
	if !strings.Contains(r.body, `"id":2,"error"`) || !strings.Contains(r.body, "over the limit") {
		t.Errorf("got %.200q", r.body)
	}
	b.rec.event(t, "limit")
	if r := b.post(session, fits); r.status != 404 {
		t.Errorf("the session lives: %d", r.status)
	}
}

func TestMemoryIsShared(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Memory = 2 << 20
	b := scriptedBench(t, within, 0)
	session := b.open()
	if r := b.post(session, `"`+strings.Repeat("x", 2<<20)+`"`); r.status != 503 {
		t.Errorf("body: %d", r.status)
	}
	idle := b.proxy.MemoryUsed()
	for range 10 {
		body := `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":"` + strings.Repeat("x", 200<<10) + `"}}`
		if r := b.post(session, body); r.status != 200 {
			t.Fatalf("echo: %d %.200q", r.status, r.body)
		}
		// All of it is given back, though maybe after the answer is out.
		for end := time.Now().Add(10 * time.Second); b.proxy.MemoryUsed() > idle && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.proxy.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if lost := b.proxy.MemoryUsed(); lost != 0 {
		t.Errorf("%d bytes are lost", lost)
	}
}

func TestSessionsAndLaunchesAreBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Sessions, within.Launches = 2, 3
	b := scriptedBench(t, within, 0)
	first := b.open()
	b.open()
	if r := b.do("POST", "s", initialize); r.status != 503 || !strings.Contains(r.body, "sessions") {
		t.Errorf("third session: %d %q", r.status, r.body)
	}
	b.do("DELETE", "s", "", "Mcp-Session-Id", first)
	b.open()
	b.do("DELETE", "s", "", "Mcp-Session-Id", first)
	limitEvent := b.rec.event(t, "limit")
	if !strings.Contains(limitEvent.Message, "2 sessions") {
		t.Errorf("event: %+v", limitEvent)
	}
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "echo")
	if r.status != 503 || !strings.Contains(r.body, "processes") {
		t.Errorf("fourth process: %d %q", r.status, r.body)
	}
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.InFlight = 2
	b := scriptedBench(t, within, 0)
	session := b.open()
	for id := range 2 {
		b.stream(t.Context(), "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"hold"}`, id), "Mcp-Session-Id", session).next()
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":3,"method":"echo"}`); r.status != 429 {
		t.Errorf("got %d %q", r.status, r.body)
	}
	b.post(session, `{"jsonrpc":"2.0","method":"release"}`)
}

func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Queue = 3
	b := scriptedBench(t, within, 0)
	session := b.open()
	for range 5 {
		b.post(session, `{"jsonrpc":"2.0","method":"announce"}`)
	}
	if e := b.rec.event(t, "limit"); !strings.Contains(e.Message, "list_changed") {
		t.Errorf("event: %+v", e)
	}
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Body = 200 * time.Millisecond
	b := scriptedBench(t, within, 0)
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: s\r\nContent-Length: 100\r\n\r\n{")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %d", response.StatusCode)
	}
	b.rec.event(t, "limit")
}

func TestAgentThatDoesNotRead(t *testing.T) {
	within := quick()
	within.Write = 200 * time.Millisecond
	b := scriptedBench(t, within, 0)
	session := b.open()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"jsonrpc":"2.0","id":1,"method":"big","params":{"size":30000000}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", session, len(body), body)
	b.rec.wait(t, "the answer", hasFrame(evidence.ToClient, "", `"id":1,"result":"xx`))
	if r := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"echo"}`); r.status != 200 {
		t.Errorf("another request: %d", r.status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.proxy.Close(ctx); err != nil {
		t.Errorf("the handler is stuck: %v", err)
	}
}

func TestLaunchFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Launch: func(context.Context) (process.Process, error) {
		return nil, errors.New("no such program")
	}}})
	r := b.do("POST", "s", initialize)
	if r.status != 502 || !strings.Contains(r.body, "no such program") || !strings.Contains(r.body, `"id":0,"error"`) {
		t.Errorf("got %d %q", r.status, r.body)
	}
	if r.header.Get("Mcp-Session-Id") != "" {
		t.Error("a session without a process")
	}
	b.rec.event(t, "server_exit")
}

func TestLaunchThatHangs(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Start: 100 * time.Millisecond, Launch: func(ctx context.Context) (process.Process, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	if r := b.do("POST", "s", initialize); r.status != 502 || !strings.Contains(r.body, "did not start within") {
		t.Errorf("got %d %q", r.status, r.body)
	}
}

func TestInitializeThatFailsLeavesNoSession(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Launch: launching(t, "stateless")}})
	r := b.do("POST", "s", initialize)
	if r.header.Get("Mcp-Session-Id") != "" || !strings.Contains(r.body, "2026-07-28") {
		t.Errorf("got %v %q", r.header, r.body)
	}
	b.rec.event(t, "server_exit")
}
