package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// upstreamBench is a bench with one server called "s", which speaks HTTP as
// handler does.
func upstreamBench(t testing.TB, within limits, timeout time.Duration, handler http.HandlerFunc) *bench {
	t.Helper()
	return newBench(t, within, proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, handler), Timeout: timeout}})
}

// upstreamOf is a server in a container, as far as the proxy can tell.
func upstreamOf(t testing.TB, handler http.HandlerFunc) *transport.Upstream {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(bytes.NewReader(readAll(r.Body))) // or net/http does not see a client leave
		handler(w, r)
	}))
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	t.Cleanup(server.Close)
	dialer := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	}
	t.Cleanup(dialer.CloseIdleConnections)
	where, err := url.Parse("http://localhost:3001/own/mcp")
	if err != nil {
		t.Fatal(err)
	}
	return &transport.Upstream{URL: where, Transport: dialer}
}

func TestRequestsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	var got *http.Request
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		w.Header().Set("X-Server", "own")
		w.WriteHeader(http.StatusTeapot)
		w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	})
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"Mcp-Session-Id", "of the server", "X-Agent", "a", "Connection", "X-Gone", "X-Gone", "g", "Origin", "http://s", "Accept-Encoding", "gzip")
	if r.status != http.StatusTeapot || r.header.Get("X-Server") != "own" || !strings.Contains(r.raw, `"result":{}`) {
		t.Errorf("the agent got %d %v %q", r.status, r.header, r.raw)
	}
	h := got.Header
	if got.URL.Path != "/own/mcp" || got.Host != "localhost:3001" || h.Get("Origin") != "http://localhost:3001" ||
		h.Get("X-Agent") != "a" || h.Get("X-Gone") != "" || h.Get("Accept-Encoding") != "identity" || h.Get("Mcp-Session-Id") != "of the server" {
		t.Errorf("the server got %s %s %v", got.Host, got.URL, h)
	}
	if frames := b.rec.all(); len(frames) != 2 || frames[0].Conn != "s/1" || frames[1].Synthetic != "" {
		t.Errorf("frames: %+v", frames)
	}
}

// rpc answers a request with a result, as JSON.
func rpc(w http.ResponseWriter, r *http.Request, result string) {
	sent, err := parse(readAll(r.Body))
	if err != nil || !asks(sent) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, sent[0].ID.Raw, result)
}

func readAll(r io.Reader) []byte {
	all, _ := io.ReadAll(r)
	return all
}

// written writes pieces of an event stream unchanged.
func written(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range pieces {
		io.WriteString(w, piece)
		http.NewResponseController(w).Flush()
	}
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// TestPassedBytes is TestBytes for servers that speak HTTP, in both forms of a
// response.
func TestPassedBytes(t *testing.T) {
	heavytest.Mark(t)
	echo := func(w http.ResponseWriter, r *http.Request) {
		sent := readAll(r.Body)
		var params string
		for key, value := range jsontext.Members(sent) {
			if key == "params" {
				params = string(value)
			}
		}
		answer := `{"jsonrpc":"2.0","id":1,"result":` + params + `}`
		if r.Header.Get("X-Stream") == "" {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, answer)
			return
		}
		written(w, "id: 7\r\nretry: 20\r\ndata:"+answer+"\r\n\r\n")
	}
	tests := map[string]string{
		"integer above 2^53": `{"n":9007199254740993,"m":123456789012345678901234567890}`,
		"fractions":          `{"a":1.0,"b":1e2,"c":-0.0,"d":1E+400}`,
		"spaces":             "{\"nbsp\":\"\u00a0\",\"ideographic\":\"\u3000\",\"zwj\":\"a\u200db\"}",
		"separators":         "{\"x\":\"\u2028\u2029\ufffd\"}",
		"escapes":            `{"x":"\u0041\/\ud83d\ude00\ud800<>&"}`,
		"duplicate keys":     `{"z":1,"a":2,"a":3,"A":3}`,
		"white space":        "{ \"a\" :\t[ 1 ,2 ] }",
		"invalid UTF-8":      "{\"x\":\"\xff\xfe\"}",
		"10 MB":              `{"x":"` + strings.Repeat("ab\u200d1.0 ", 1<<20) + `"}`,
	}
	for _, filtered := range []bool{false, true} {
		up := proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, echo)}}
		if filtered {
			up.Tools = []string{"some"}
		}
		b := newBench(t, limits{}, up)
		for name, params := range tests {
			for _, form := range []string{"", "stream"} {
				if name == "10 MB" && filtered == (form == "") {
					continue // each form once, one of them filtered
				}
				t.Run(fmt.Sprint(name, form, filtered), func(t *testing.T) {
					before := len(b.rec.all())
					sent := `{"jsonrpc":"2.0","id":1,"unknown":{"q":1.50},"method":"echo","params":` + params + `}`
					answer := `{"jsonrpc":"2.0","id":1,"result":` + params + `}`
					want := answer
					if form != "" {
						want = "id: 7\r\nretry: 20\r\ndata:" + answer + "\r\n\r\n"
					}
					if r := b.do("POST", "s", sent, "X-Stream", form); r.raw != want {
						t.Errorf("the agent got %.300q\nwant %.300q", r.raw, want)
					}
					frames := b.rec.all()[before:]
					if len(frames) != 2 || string(frames[0].Raw) != sent || string(frames[1].Raw) != answer {
						t.Errorf("the record has other bytes")
					}
				})
			}
		}
	}
}

// JSON that comes in chunks is passed on and recorded message by message, whatever the chunks.
func TestMessagesOfOneResponse(t *testing.T) {
	t.Parallel()
	first := `{"jsonrpc":"2.0","method":"a","params":{"x":"\"}]","y":[{}]}}`
	next := make(chan struct{})
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, piece := range []string{" \n", first[:40], first[40:]} {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
		}
		<-next
		io.WriteString(w, "\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n")
	})
	response := b.request(t.Context(), "POST", "s", ping)
	defer response.Body.Close()
	got := make([]byte, len(" \n"+first))
	if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != " \n"+first {
		t.Errorf("the agent got %q, %v", got, err)
	}
	if frames := b.rec.all(); len(frames) != 2 || string(frames[1].Raw) != " \n"+first {
		t.Errorf("recorded are %s", framesText(frames))
	}
	close(next)
	if rest := string(readAll(response.Body)); rest != "\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("then it got %q", rest)
	}
	b.rec.wait(t, "three frames", func(frames []evidence.Frame, _ []evidence.Event) bool { return len(frames) == 3 })
}

// What a server answers reaches the agent with its bytes, status and type, whatever it is and
// in whatever pieces it comes.
func TestJunkFromServersPasses(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, test := range map[string]struct {
		status int
		kind   string
		body   string
	}{
		"words":              {200, "application/json", "not JSON at all\n"},
		"NUL":                {200, "application/json", "\x00\x00" + answer + "\x00"},
		"invalid UTF-8":      {200, "application/json", "\xff\xfe\x80" + answer + "\n\xc3"},
		"byte order mark":    {200, "application/json", "\xef\xbb\xbf" + answer},
		"record separators":  {200, "application/json-seq", "\x1e" + answer + "\n\x1e" + answer + "\n"},
		"after the answer":   {200, "application/json", answer + "\n<!-- done -->\r\n}}]]"},
		"before the answer":  {200, "application/json", ")]}',\n" + answer},
		"between":            {200, "application/json", answer + " , " + answer + ";;\r\r\n" + answer + "\t"},
		"never closed":       {200, "application/json", answer + "\n{\"a\":[{\"b\":\"}"},
		"closed too often":   {200, "application/json", "}]" + answer + "]}"},
		"scalars":            {200, "application/json", "1 \"x\" null true\n" + answer + "\n-0.0"},
		"batches":            {200, "application/json", "[]\n[" + answer + "]\n[[]]\n"},
		"white space":        {200, "application/json", " \r\n\t\n"},
		"an HTML error":      {500, "text/html; charset=latin1", "<h1>\xe9chec {\"a\":1}</h1>\n"},
		"JSON error":         {422, "application/problem+json", "{\"title\": \"no\" }\n\n"},
		"teapot":             {418, "application/json", "{\"short\":\"stout\"}\n{}\n"},
		"lines":              {200, "application/x-ndjson", answer + "\n" + answer + "\n"},
		"no stream":          {200, "text/event-stream", "not a stream {\n\n\x00\n\n"},
		"fields":             {200, "text/event-stream", "\xef\xbb\xbf:\xff\nid: \x00\nretry: x\ndata\nfoo: bar\n\ndata: " + answer + "\n\n"},
		"data in lines":      {200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\ndata:\"id\":1,\rdata:  \"result\":{}}\r\n\r\n"},
		"blank lines":        {200, "text/event-stream", "\n\r\r\n\n" + "data: " + answer + "\r\r\n\r\n\n"},
		"a failing stream":   {503, "text/event-stream", "event: error\ndata: \xff down\n\n"},
		"words as an answer": {200, "text/event-stream", "data: OK\n\ndata: " + answer + " \n\ndata: bye\n\n"},
	} {
		for _, size := range []int{1, 7, 1 << 10} { // of the pieces; the last is all at once, with a length
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				t.Parallel()
				b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", test.kind)
					w.WriteHeader(test.status)
					for piece := range slices.Chunk([]byte(test.body), size) {
						w.Write(piece)
						if size < len(test.body) {
							http.NewResponseController(w).Flush()
						}
					}
				})
				r := b.do("POST", "s", ping)
				if r.status != test.status || r.header.Get("Content-Type") != test.kind || r.raw != test.body {
					t.Errorf("the agent got %d %s %q, want %q", r.status, r.header.Get("Content-Type"), r.raw, test.body)
				}
			})
		}
	}
}

// A complete message does not wait for later bytes, and its line end neither waits for the next
// message, in whatever pieces they come.
func TestLineEndsDoNotWait(t *testing.T) {
	t.Parallel()
	note, answer := `{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, test := range map[string]struct {
		kind   string
		pieces []string
		frames []string
	}{
		"lines":           {"application/json", []string{note + "\n", answer + "\n"}, []string{note, answer}},
		"CR LF":           {"application/json", []string{note + "\r\n", answer + "\r\n"}, []string{note, answer}},
		"a late line end": {"application/json", []string{note, "\n", answer, "\n"}, []string{note, answer}},
		"a late LF":       {"application/json", []string{note + "\r", "\n", answer}, []string{note, answer}},
		"blank lines":     {"application/json", []string{note, "\n\n", " \n", answer}, []string{note, answer}},
		"tabs":            {"application/json", []string{note + "\t", "\t\n", answer + " \n"}, []string{note, answer}},
		"CR":              {"application/json", []string{note + "\r", answer + "\r"}, []string{note, answer}},
		"LF CR":           {"application/json", []string{note + "\n\r", "\n\r", answer}, []string{note, answer}},
		"a batch":         {"application/json", []string{"[" + note + "]\n", "[" + answer + "]\r\n"}, []string{"[" + note + "]", "[" + answer + "]"}},
		"two at once":     {"application/json; charset=utf-8", []string{note + "\n" + note + "\r\n", answer + "\n\n"}, []string{note, note, answer}},
		"events":          {"text/event-stream", []string{"data: " + note + "\n\n", "data: " + answer + "\n\n"}, []string{note, answer}},
		"events in CR LF": {"text/event-stream", []string{"data: " + note + "\r\n\r\n", "data: " + answer + "\r\n\r\n"}, []string{note, answer}},
		"events and LF":   {"text/event-stream", []string{"data: " + note + "\r\n\r", "\n", "data: " + answer + "\n\n"}, []string{note, answer}},
		"events in CR":    {"text/event-stream", []string{"data: " + note + "\r\r", "data: " + answer + "\r\r"}, []string{note, answer}},
		"late blank line": {"text/event-stream", []string{": c\n", "data: " + note + "\n\n", "\n", "data: " + answer + "\n\n"}, []string{note, answer}},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				for _, piece := range test.pieces {
					io.WriteString(w, piece)
					http.NewResponseController(w).Flush()
					select {
					case <-read:
					case <-r.Context().Done():
						return
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			response := b.request(ctx, "POST", "s", ping)
			defer response.Body.Close()
			for i, piece := range test.pieces {
				got := make([]byte, len(piece))
				if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != piece {
					t.Fatalf("piece %d is %q, %v; want %q", i, got, err, piece)
				}
				read <- struct{}{}
			}
			var recorded []string
			for _, f := range b.rec.all()[1:] {
				recorded = append(recorded, string(f.Raw))
			}
			if !slices.Equal(recorded, test.frames) {
				t.Errorf("recorded are %q", recorded)
			}
		})
	}
}

// Chunked messages without an end are limited like other messages, and a truncated message
// is not a response.
func TestMessagesWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ piece, again, says string }{
		"one message":    {`{"x":"`, strings.Repeat("x", 1<<10), transport.ErrTooLong.Error()},
		"white space":    {" ", strings.Repeat(" ", 1<<10), transport.ErrTooLong.Error()},
		"many messages":  {"", `{"jsonrpc":"2.0","method":"a"}`, transport.ErrFlooded.Error()},
		"no answer":      {`{"jsonrpc":"2.0","method":"a"}`, "", proxy.ErrCut.Error()},
		"half an answer": {`{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","id":1,"res`, "", proxy.ErrCut.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, err := io.WriteString(w, test.piece)
				for http.NewResponseController(w).Flush(); test.again != "" && err == nil; {
					_, err = io.WriteString(w, test.again)
				}
			})
			b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up, Message: 64 << 10, Frames: 100}})
			b.do("POST", "s", ping)
			if !hasFrame(evidence.ToClient, evidence.SyntheticTransport, test.says)(b.rec.all(), nil) {
				t.Errorf("recorded are %.2000s", framesText(b.rec.all()))
			}
		})
	}
}

// However a body is cut into pieces, all of it is passed on.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(" {\"a\":\"}\\\"\"}[1][{}]\n"), uint8(3))
	f.Add([]byte("}{\"\\"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		var source io.Reader = iotest.OneByteReader(bytes.NewReader(data))
		if size > 0 {
			source = &pieces{data, int(size)}
		}
		in := transport.NewMessageReader(source, 1<<20, bounded.NewBudget(1<<30))
		var all []byte
		for {
			body, err := in.Next()
			all = append(all, body.Bytes...)
			if sent, bad := parse(body.Bytes); err == nil && bad == nil && len(sent) == 0 {
				t.Errorf("%q is no message", body.Bytes)
			}
			if body.Release(); err != nil {
				break
			}
		}
		if !bytes.Equal(all, data) {
			t.Errorf("%q became %q", data, all)
		}
	})
}

// pieces is a reader that returns a fixed number of bytes at a time, and the end with the
// last of them.
type pieces struct {
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b, p.left[:min(p.size, len(p.left))])
	if p.left = p.left[n:]; len(p.left) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func TestHostsAndOrigins(t *testing.T) {
	t.Parallel()
	var host, sender string
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) { host, sender = r.Host, r.Header.Get("Origin") })
	remote := *up
	remote.Remote = true
	remote.URL, _ = url.Parse("http://mcp.example/own/mcp")
	for name, test := range map[string]struct {
		up                 *transport.Upstream
		host, origin       string
		wantHost, wantFrom string
	}{
		"the name":          {up, "s", "http://s", "localhost:3001", "http://localhost:3001"},
		"the name and port": {up, "S:80", "http://s:80", "localhost:3001", "http://localhost:3001"},
		"another":           {up, "evil.example", "http://evil.example", "evil.example", "http://evil.example"},
		"the address":       {up, "LISTENER", "http://LISTENER", "localhost:3001", "http://localhost:3001"},
		"local":             {up, "localhost:9", "https://s", "localhost:9", "https://s"},
		"remote":            {&remote, "s", "http://s", "mcp.example", "http://mcp.example"},
		"remote by another": {&remote, "evil.example", "http://evil.example", "mcp.example", "http://mcp.example"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: test.up}})
			front := httptest.NewServer(b.proxy.Handler("s"))
			defer front.Close()
			r, _ := http.NewRequestWithContext(t.Context(), "GET", front.URL+"/mcp", nil)
			r.Host = strings.Replace(test.host, "LISTENER", r.Host, 1)
			r.Header.Set("Origin", strings.Replace(test.origin, "LISTENER", front.Listener.Addr().String(), 1))
			response, err := front.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if host != test.wantHost || sender != test.wantFrom {
				t.Errorf("the server got host %q and origin %q", host, sender)
			}
		})
	}
}

func TestOtherPathsAreNotThere(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	for _, path := range []string{"/", "/mcp/", "/own/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server/mcp"} {
		response, err := b.client.Get("http://s" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			return
		}
		if r.Header.Get("Mcp-Session-Id") == "" && r.Header.Get("X-Opens") != "" {
			w.Header().Set("Mcp-Session-Id", r.Header.Get("X-Opens"))
		}
		rpc(w, r, "{}")
	})
	b.do("POST", "s", initialize, "X-Opens", "a")
	b.do("POST", "s", initialize, "X-Opens", "b")
	b.do("POST", "s", ping, "Mcp-Session-Id", "b")
	b.do("POST", "s", ping, "Mcp-Session-Id", "a")
	b.do("POST", "s", ping)
	b.do("POST", "s", ping, "Mcp-Session-Id", "unheard of")
	b.do("DELETE", "s", "", "Mcp-Session-Id", "a")
	b.do("POST", "s", ping, "Mcp-Session-Id", "a")
	var conns []string
	for _, f := range b.rec.all() {
		if f.Dir == evidence.ToServer {
			conns = append(conns, f.Conn)
		}
	}
	if diff := cmp.Diff([]string{"s/1", "s/2", "s/2", "s/1", "s/3", "s/3", "s/3"}, conns); diff != "" {
		t.Error(diff)
	}
}

// An initialize request opens a conversation of its own, also in a session that is known.
func TestInitializeInASession(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{Limits: proxy.Limits{Launches: 2}}, 0, func(w http.ResponseWriter, r *http.Request) {
		if opens := r.Header.Get("X-Opens"); opens != "" {
			w.Header().Set("Mcp-Session-Id", opens)
		}
		rpc(w, r, "{}")
	})
	b.do("POST", "s", initialize, "X-Opens", "a")
	b.do("POST", "s", initialize, "X-Opens", "b", "Mcp-Session-Id", "a")
	b.do("POST", "s", ping, "Mcp-Session-Id", "a")
	b.do("POST", "s", ping, "Mcp-Session-Id", "b")
	if r := b.do("POST", "s", initialize, "X-Opens", "c", "Mcp-Session-Id", "b"); r.status != http.StatusServiceUnavailable {
		t.Errorf("the third conversation is answered %d", r.status)
	}
	var conns []string
	for _, f := range b.rec.all() {
		if f.Dir == evidence.ToServer && len(conns) < 4 {
			conns = append(conns, f.Conn)
		}
	}
	if diff := cmp.Diff([]string{"s/1", "s/2", "s/1", "s/2"}, conns); diff != "" {
		t.Error(diff)
	}
}

// An id that is in flight twice without a session is two conversations.
func TestOneIDTwiceAtOnce(t *testing.T) {
	t.Parallel()
	both := make(chan struct{}, 2)
	release := make(chan struct{})
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		both <- struct{}{}
		<-release
		rpc(w, r, "{}")
	})
	var posts sync.WaitGroup
	for range 2 {
		posts.Go(func() { b.do("POST", "s", ping) })
	}
	<-both
	<-both
	close(release)
	posts.Wait()
	conns := map[string]int{}
	for _, f := range b.rec.all() {
		conns[f.Conn]++
	}
	if diff := cmp.Diff(map[string]int{"s/1": 2, "s/2": 2}, conns); diff != "" {
		t.Error(diff)
	}
}

func TestAgentsEncodingIsRefused(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	if r := b.do("POST", "s", "\x1f\x8b", "Content-Encoding", "gzip"); r.status != http.StatusUnsupportedMediaType {
		t.Errorf("got %d", r.status)
	}
}

// For a server that honors the charset, the second name is the tool's, in UTF-7.
func TestAgentsCharsetIsRefused(t *testing.T) {
	t.Parallel()
	asked := 0
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		asked++
		rpc(w, r, "{}")
	})
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","x":"+ACI-,+ACI-name+ACI-:+ACI-hidden"}}`
	for kind, passes := range map[string]bool{
		"application/json":                                     true,
		"application/json; charset=utf-8":                      true,
		`application/json; CHARSET="UTF-8"`:                    true,
		"application/json; charset=utf-7":                      false,
		`application/json;charset="utf-7`:                      false,
		"application/json; charset*=us-ascii''utf-7":           false,
		"application/json; charset=utf-8; charset=utf-7":       false,
		"application/json; charset=utf-8, text/x;charset=x":    false,
		"application/json; charset=utf-16":                     false,
		"application/json; a=\"charset=utf-7\"; charset=utf-7": false,
	} {
		before := asked
		r := b.do("POST", "s", call, "Content-Type", kind)
		if passed := asked > before; passed != passes || !passes && r.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d, reaches the server: %v", kind, r.status, passed)
		}
	}
}

// The body of a POST reaches the server and is recorded, even if it is not a message.
func TestWhatIsNoMessagePasses(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(418)
		w.Write(readAll(r.Body))
	})
	for _, body := range []string{"hello", `{"jsonrpc":"1.0"}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"ID\":2,\"method\":\"x\"}"} {
		before := len(b.rec.all())
		if r := b.do("POST", "s", body); r.status != 418 || r.raw != body {
			t.Errorf("%d %q", r.status, r.raw)
		}
		if frames := b.rec.all()[before:]; len(frames) == 0 || string(frames[0].Raw) != body {
			t.Errorf("frames of %q: %s", body, framesText(frames))
		}
	}
	if result, err := capture.Calls(b.rec.sequence()); err != nil || len(result.Gaps) < 3 {
		t.Errorf("gaps %v, %v", result.Gaps, err)
	}
}

func TestSilentStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := upstreamBench(t, limits{Limits: proxy.Limits{Idle: 50 * time.Millisecond}}, 0, func(w http.ResponseWriter, r *http.Request) {
		written(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n")
		<-release
		written(w, ": own comment\n", "data: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n")
	})
	response := b.request(t.Context(), "GET", "s", "")
	defer response.Body.Close()
	in := bufio.NewReader(response.Body)
	var text string
	for !strings.Contains(text, ": own comment\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err, text)
		}
		if text += line; line == ": keepalive\n" && !strings.Contains(text, "own") {
			select {
			case <-release:
			default:
				close(release)
			}
		}
	}
	rest, _ := io.ReadAll(in)
	if !strings.Contains(string(rest), `"method":"b"`) || len(b.rec.all()) != 2 {
		t.Errorf("rest %q, frames %s", rest, framesText(b.rec.all()))
	}
}

// The agent's leaving reaches the server. From 2026-07-28 it cancels the request.
func TestAgentThatLeaves(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		written(w, ": hello\n\n")
		<-r.Context().Done()
		close(left)
	})
	body, header := stateless(`"q"`, "tools/call", `"name":"slow"`)
	ctx, cancel := context.WithCancel(t.Context())
	response := b.request(ctx, "POST", "s", body, header...)
	_, _ = io.ReadFull(response.Body, make([]byte, 3))
	cancel()
	response.Body.Close()
	<-left
	b.rec.wait(t, "a cancellation", hasFrame(evidence.ToServer, evidence.SyntheticCancelled, `"requestId":"q"`))
	b.rec.event(t, "cancelled")
}

// resumable is a server that answers a call only where its stream is resumed: at first it does
// what it is given, with the stream open.
func resumable(first func(*http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Session-Id") == "":
			w.Header().Set("Mcp-Session-Id", "one")
			rpc(w, r, `{"protocolVersion":"2025-11-25"}`)
		case r.Method == http.MethodPost:
			written(w, "id: 1\ndata:\n\n")
			first(r)
		case r.Header.Get("Last-Event-Id") == "1":
			written(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n")
		}
	}
}

// A stream that breaks off in a session is resumed, and its answer is that of the
// request.
func TestResumption(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, resumable(func(*http.Request) {}))
	b.do("POST", "s", initialize)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`
	if r := b.do("POST", "s", call, "Mcp-Session-Id", "one"); r.raw != "id: 1\ndata:\n\n" {
		t.Errorf("the agent got %q", r.raw)
	}
	if r := b.do("GET", "s", "", "Mcp-Session-Id", "one", "Last-Event-Id", "1"); !strings.Contains(r.raw, `"result"`) {
		t.Errorf("the agent got %q", r.raw)
	}
	result, err := capture.Calls(b.rec.sequence())
	if err != nil || len(result.Calls) != 1 || result.Calls[0].Outcome != evidence.OutcomeOK {
		t.Errorf("%+v, %v", result, err)
	}
}

// A call that the agent has left, and whose answer it does not fetch, is abandoned and no error
// of the server's.
func TestLeftPassages(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, resumable(func(r *http.Request) { <-r.Context().Done() }))
	b.do("POST", "s", initialize)
	for _, id := range []string{"1", "2", "3"} {
		ctx, cancel := context.WithCancel(t.Context())
		response := b.request(ctx, "POST", "s", `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"slow"}}`, "Mcp-Session-Id", "one")
		defer response.Body.Close()
		defer cancel()
		if id == "3" {
			break // in flight when the agent's time is over
		}
		cancel()
		b.rec.wait(t, "that it left", hasFrame(evidence.ToServer, evidence.SyntheticAbandoned, `"requestId":`+id))
	}
	b.do("GET", "s", "", "Mcp-Session-Id", "one", "Last-Event-Id", "1")
	if err := b.proxy.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []evidence.Outcome
	result, err := capture.Calls(b.rec.sequence())
	for _, call := range result.Calls {
		got = append(got, call.Outcome)
	}
	want := []evidence.Outcome{evidence.OutcomeOK, evidence.OutcomeAbandoned, evidence.OutcomeAbandoned}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCloseEndsPassages(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		written(w, ": hello\n\n")
		<-r.Context().Done()
	})
	response := b.request(t.Context(), "POST", "s", ping)
	defer response.Body.Close()
	if err := b.proxy.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rest := readAll(response.Body); !strings.Contains(string(rest), "closed") {
		t.Errorf("the agent got %q", rest)
	}
	if !hasFrame(evidence.ToClient, evidence.SyntheticTransport, "closed")(b.rec.all(), nil) {
		t.Error("no frame")
	}
}

func TestPassagesAreBounded(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{}, 10)
	release := make(chan struct{})
	b := upstreamBench(t, limits{Limits: proxy.Limits{InFlight: 2}}, 0, func(w http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-release
		rpc(w, r, "{}")
	})
	var posts sync.WaitGroup
	for i := range 2 {
		posts.Go(func() { b.do("POST", "s", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i)) })
		<-inside
	}
	if r := b.do("POST", "s", `{"jsonrpc":"2.0","id":9,"method":"x"}`); r.status != http.StatusTooManyRequests {
		t.Errorf("got %d %s", r.status, r.raw)
	}
	close(release)
	posts.Wait()
	b.rec.event(t, "limit")
}
