package serve

import (
	"context"
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
	r.AddCookie(s.cookie())
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

// cookie is what lets a request in.
func (s *site) cookie() *http.Cookie {
	return &http.Cookie{Name: "waza-serve-" + s.base[strings.LastIndex(s.base, ":")+1:], Value: s.token}
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

// list is the list of runs, by their ids.
func (s *site) list() map[string]view.ListedRun {
	s.t.Helper()
	runs, err := s.runs.list()
	if err != nil {
		s.t.Fatal(err)
	}
	return byID(runs)
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
