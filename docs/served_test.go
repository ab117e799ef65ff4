package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/serve"
)

// asked is a waza serve of runs named ID and live, and of one that cannot be read.
type asked struct {
	t           *testing.T
	base, token string
	client      *http.Client
}

func serveRuns(t *testing.T) asked {
	t.Helper()
	dir := t.TempDir()
	run := runtest.New(t, filepath.Join(dir, "ID"), "shop")
	run.Trial("TASK", func(trial *runtest.Trial) {
		trial.Serve("stock", runtest.Tool{Name: "price"})
		trial.Call("stock", "price", map[string]any{"sku": "BRG"}, "12 cents")
		trial.Grade("told", "text", `{"contains": ["sold"]}`)
	})
	run.End()
	other := runtest.New(t, filepath.Join(dir, "unreadable"), "shop")
	other.Trial("TASK", func(trial *runtest.Trial) { trial.Grade("told", "text", `{"contains": ["sold"]}`) })
	other.End()
	if err := os.Symlink("/", filepath.Join(dir, "unreadable", "link")); err != nil {
		t.Fatal(err)
	}
	runtest.Begin(t, dir, "live", 1)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve.New(dir)
	base, token, _ := strings.Cut(server.URL(listener.Addr()), "/?token=")
	transport := &http.Transport{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return asked{t, base, token, &http.Client{Transport: transport}}
}

// ask asks, with the token unless change has it otherwise. The body is read by who asks.
func (a asked) ask(method, path string, change func(*http.Request)) *http.Response {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	if change != nil {
		change(r)
	}
	got, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

// servedPath is a row of the table of paths.
var servedPath = regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\|")

// TestServedPathsAreDocumented asks for each path that the page names, and has each
// status happen that it names.
func TestServedPathsAreDocumented(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(root, "docs", "serve.md"))
	a := serveRuns(t)
	var paths []string
	for _, match := range servedPath.FindAllStringSubmatch(text, -1) {
		path := strings.NewReplacer("/N", "/1", "PATH", "run.json").Replace(match[1])
		paths = append(paths, path)
		got := a.ask(http.MethodGet, path, nil)
		want := "application/json"
		switch {
		case strings.HasSuffix(path, "/events"):
			want = "text/event-stream"
		case strings.Contains(path, "/files/"):
			want = "text/plain; charset=utf-8"
		}
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != want {
			t.Errorf("%s: %s, %s", path, got.Status, got.Header.Get("Content-Type"))
		}
		if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("ETag") != "" || got.Header.Get("Last-Modified") != "" {
			t.Errorf("%s is to be kept: %v", path, got.Header)
		}
		head := a.ask(http.MethodHead, path, nil)
		if body, err := io.ReadAll(head.Body); head.StatusCode != http.StatusOK || head.Header.Get("Content-Type") != want || len(body) > 0 || err != nil {
			t.Errorf("HEAD %s: %s, %d bytes, %v", path, head.Status, len(body), err)
		}
	}
	if len(paths) != 7 {
		t.Errorf("the page names %q", paths)
	}
	reported := regexp.MustCompile(`status of ([0-9, or]+)`).FindString(text)
	all := regexp.MustCompile(`[0-9]{3}`).FindAllString(reported, -1)
	if len(all) != 8 {
		t.Errorf("the page names %q", all)
	}
	for _, status := range all {
		a.fails(status)
	}
}

// fails has a status happen.
func (a asked) fails(status string) {
	a.t.Helper()
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	method, path, change := http.MethodGet, "/api/v1/runs", func(*http.Request) {}
	switch status {
	case "400":
		path += "?limit=many"
	case "401":
		change = header("Authorization", "Bearer wrong")
	case "403":
		change = header("Origin", "http://attacker.example")
	case "404":
		path += "/none"
	case "405":
		method = http.MethodPost
	case "421":
		change = func(r *http.Request) { r.Host = "attacker.example" }
	case "500":
		path += "/unreadable"
	case "503":
		path = "/runs/live/events"
		for range 128 {
			a.ask(http.MethodGet, path, nil)
		}
	}
	got := a.ask(method, path, change)
	body, err := io.ReadAll(got.Body)
	var reported serve.ErrorAnswer
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if !strings.HasPrefix(got.Status, status) || got.Header.Get("Content-Type") != "application/json" || err != nil || strict.Decode(&reported) != nil || reported.Error == "" {
		a.t.Errorf("%s: %s, %s\n%s", status, got.Status, got.Header.Get("Content-Type"), body)
	}
}

// TestServedSamples reads the answers that the page shows as what they are.
func TestServedSamples(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(root, "docs", "serve.md"))
	_, list, _ := strings.Cut(text, "limit=1\"\n")
	list, _, _ = strings.Cut(list, "```")
	_, event, _ := strings.Cut(text, "event: progress\ndata: ")
	event, _, _ = strings.Cut(event, "```")
	for sample, v := range map[string]any{list: &serve.RunList{}, event: &view.RunProgress{}} {
		strict := json.NewDecoder(strings.NewReader(sample))
		strict.DisallowUnknownFields()
		if err := strict.Decode(v); err != nil {
			t.Errorf("%v in %s", err, sample)
		}
	}
}
