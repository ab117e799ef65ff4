package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/view"
)

// enough is more than anything takes that a test waits for.
const enough = time.Minute

// site is a server at work, and a client that has its token.
type site struct {
	*Server
	t      *testing.T
	base   string // http://127.0.0.1:PORT
	client *http.Client
	end    func() error // stops the server and returns its error
}

// open serves dir until the test ends.
func open(t *testing.T, dir string) *site {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	s := &site{Server: New(dir), t: t, base: "http://" + listener.Addr().String(), client: &http.Client{
		Transport: transport, Timeout: enough, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s.watches.every = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	s.end = func() error {
		cancel()
		transport.CloseIdleConnections()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// answer is a complete HTTP response.
type answer struct {
	*http.Response
	body string
}

// ask asks for a path as change has it; nil is with the token.
func (s *site) ask(path string, change func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if change != nil {
		change(r)
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{got, string(body)}
}

// page is a page, which must be there.
func (s *site) page(path string) string {
	s.t.Helper()
	got := s.ask(path, nil)
	if got.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s\n%s", path, got.Status, got.body)
	}
	return got.body
}

// api reads an answer of the API.
func api[T any](s *site, path string) (v T) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.page("/api/v1/"+path)), &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// makeRun makes a run that has ended, of a task that passed and one that failed.
func makeRun(t *testing.T, dir, id string) string {
	t.Helper()
	at := filepath.Join(dir, id)
	r := runtest.New(t, at, "shop")
	r.Trial("buy", func(trial *runtest.Trial) {
		trial.Serve("stock", runtest.Tool{Name: "price"})
		trial.Call("stock", "price", map[string]any{"sku": "BRG"}, "12 cents")
		trial.Info.FinalOutput = "It costs 12 cents."
		trial.Write(evidence.StdoutFile, "<script>alert(1)</script>")
		trial.Write(evidence.StderrFile, "")
		trial.Grade("told", "text", `{"contains": ["12 cents"]}`)
	})
	r.Trial("sell", func(trial *runtest.Trial) {
		trial.Write(evidence.StdoutFile, "")
		trial.Write(evidence.StderrFile, "")
		trial.Grade("told", "text", `{"contains": ["sold"]}`)
	})
	r.End()
	return at
}

// stream is a client of events.
type stream struct {
	t    *testing.T
	body io.Closer
	in   *bufio.Reader
	said string // by the newest event
}

func (s *site) watch(id string) *stream {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+"/runs/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	got, err := (&http.Client{Transport: s.client.Transport}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("events: %s, %s", got.Status, got.Header.Get("Content-Type"))
	}
	return &stream{t: s.t, body: got.Body, in: bufio.NewReader(got.Body)}
}

// next is the next event; of another than progress an account of nothing.
func (s *stream) next() (name string, p view.RunProgress, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return name, p, err
		}
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, ": ")
		if key == "data" {
			s.said = value
		}
		switch {
		case line == "":
			return name, p, nil
		case key == "event":
			name = value
		case key == "data" && name == "progress":
			if err := json.Unmarshal([]byte(value), &p); err != nil {
				return name, p, fmt.Errorf("%s: %w", value, err)
			}
		}
	}
}

// until reads progress until it is as wanted.
func (s *stream) until(wanted func(view.RunProgress) bool) view.RunProgress {
	s.t.Helper()
	for {
		name, p, err := s.next()
		if err != nil {
			s.t.Fatal(err)
		}
		if name == "progress" && wanted(p) {
			return p
		}
	}
}
