package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"
)

// served is a running waza serve.
type served struct {
	t       *testing.T
	command *command
	base    string
	client  *http.Client
}

// newServed starts waza serve and waits for its address.
func newServed(t *testing.T, c *command) *served {
	t.Helper()
	var base, enter string
	c.await("it says where it is", func() bool {
		_, url, _ := strings.Cut(c.stdout.String(), "http://")
		url, _, whole := strings.Cut(url, "\n")
		base, enter, _ = strings.Cut("http://"+url, "/?")
		return whole
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, command: c, base: base, client: &http.Client{Transport: transport, Timeout: runLimit, Jar: jar}}
	s.page("/?" + enter)
	return s
}

func (s *served) page(path string) string {
	s.t.Helper()
	got, err := s.client.Get(s.base + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s, %v", path, got.Status, err)
	}
	return string(body)
}

// run returns the id of the only run; empty if there is none.
func (s *served) run() string {
	s.t.Helper()
	_, link, _ := strings.Cut(s.page("/"), `href="/runs/`)
	id, _, _ := strings.Cut(link, "/")
	return id
}

// A run is seen from before there is any to its end, also by a server that is started in
// the midst of it.
func TestServe(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: script, workers: 1, mcp_servers: {stock: {command: inventory}}}
tasks: [quick.yaml, waits.yaml]
-- quick.yaml --
{id: quick, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`)
	p.write("waits.yaml", `{id: waits, inputs: {prompt: x}, script: [{run: {command: [sh, -c, "until [ -e `+p.path("go")+` ]; do sleep 0.05; done"]}}, {say: done}]}`)
	first := newServed(t, p.start("serve"))
	if id := first.run(); id != "" || !strings.Contains(first.command.stdout.String(), "0 runs in .waza/runs\n") {
		t.Errorf("before anything was run: %s\n%s", id, first.command.stdout.String())
	}
	run := p.start("run", "eval.yaml")
	atWork := func(s *served) bool {
		page := s.page("/runs/" + s.run() + "/overview")
		return strings.Contains(page, ">at work<") && strings.Contains(page, "1 of 2 trials have ended") && strings.Contains(page, "waits/1") && strings.Contains(page, "agent at work")
	}
	run.await("its first trial has ended", func() bool { return first.run() != "" && atWork(first) })
	id := first.run()
	first.page("/runs/" + id + "/trial/quick/1")
	first.command.signal(os.Interrupt)
	first.command.wait(exitOK)

	second := newServed(t, p.start("serve", ".waza/runs"))
	if !atWork(second) {
		t.Error("a server that is started in the midst of a run does not show it")
	}
	p.write("go", "")
	run.wait(exitOK)
	if page := second.page("/runs/" + id + "/overview"); strings.Contains(page, ">at work<") || !strings.Contains(page, "passed") {
		t.Errorf("at the end: %s", page)
	}
	second.page("/runs/" + id + "/trial/waits/1")
	second.command.signal(os.Interrupt)
	second.command.wait(exitOK)
}

// TestServeRefuses checks the messages about what cannot be served.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "")
	p.write("file", "")
	p.write("run/run.json", "{}")
	for want, args := range map[string][]string{
		"directory missing does not exist; name":  {"missing"},
		"file is not a directory; name the":       {"file"},
		"run is a single run; name the directory": {"run"},
		"serve takes one directory":               {"a", "b"},
		"add --allow-other-machines":              {"--listen", "0.0.0.0:0"},
		"other machines could reach 192.0.2.1:1":  {"--listen", "192.0.2.1:1"},
		"give HOST:PORT, such as 127.0.0.1:8417":  {"--listen", "8417"},
		"unknown flag --public; see waza serve":   {"--public"},
	} {
		c := p.start(append([]string{"serve"}, args...)...).wait(exitUsage)
		if got := c.stderr.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %s, want %q", args, got, want)
		}
	}
}

// TestServeToOthers checks the warning about access by other machines.
func TestServeToOthers(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "")
	s := newServed(t, p.start("serve", "--listen", "0.0.0.0:0", "--allow-other-machines"))
	if reported := s.command.stderr.String(); !strings.HasPrefix(reported, "warning: ") {
		t.Errorf("it says %q", reported)
	}
	if id := s.run(); id != "" {
		t.Errorf("it has a run %s", id)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "attacker.example"
	got, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %s", got.Status)
	}
	s.command.signal(os.Interrupt)
	s.command.wait(exitOK)
}
