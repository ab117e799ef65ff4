package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/serve"
)

// served is a running waza serve.
type served struct {
	t       *testing.T
	command *command
	base    string
	token   string
	client  *http.Client
}

// newServed starts waza serve and waits for its address.
func newServed(t *testing.T, c *command) *served {
	t.Helper()
	var base, token string
	c.await("it says where it is", func() bool {
		_, url, _ := strings.Cut(c.stdout.String(), "http://")
		url, _, whole := strings.Cut(url, "\n")
		base, token, _ = strings.Cut("http://"+url, "/?token=")
		return whole
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &served{t: t, command: c, base: base, token: token, client: &http.Client{Transport: transport, Timeout: runLimit}}
}

func (s *served) get(path string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, got.Status)
	}
	return got
}

func (s *served) page(path string) string {
	s.t.Helper()
	body, err := io.ReadAll(s.get(path).Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

func (s *served) runs() []view.ListedRun {
	s.t.Helper()
	var list serve.RunList
	if err := json.Unmarshal([]byte(s.page("/api/v1/runs")), &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Runs
}

// follow reads events of a run until a condition holds.
func (s *served) follow(id string, wanted func(view.RunProgress) bool) *followed {
	s.t.Helper()
	f := &followed{s, bufio.NewReader(s.get("/runs/" + id + "/events").Body), nil}
	f.until(wanted)
	return f
}

// followed is a run whose events are read.
type followed struct {
	*served
	in     *bufio.Reader
	trials []view.TrialProgress // as they were last told of
}

// until reads events until a condition on the run and its trials holds. An event only contains
// what has changed.
func (f *followed) until(wanted func(view.RunProgress) bool) {
	f.t.Helper()
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			f.t.Fatal(err)
		}
		var p view.RunProgress
		data, isData := strings.CutPrefix(line, "data: {")
		if !isData {
			continue
		}
		if err := json.Unmarshal([]byte("{"+data), &p); err != nil {
			f.t.Fatal(err)
		}
		for _, changed := range p.Trials {
			same := func(known view.TrialProgress) bool {
				return known.Task == changed.Task && known.Number == changed.Number
			}
			f.trials = append(slices.DeleteFunc(f.trials, same), changed)
		}
		p.Trials = f.trials
		if wanted(p) {
			return
		}
	}
}

// A run is seen from before there is any to its end, also by a server that is started in
// the midst of it, and Ctrl-C ends a server that somebody watches.
func TestServe(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, timeout_seconds: 300, executor: script, workers: 1, mcp_servers: {stock: {command: inventory}}}
tasks: [quick.yaml, waits.yaml]
-- quick.yaml --
{id: quick, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`)
	p.write("waits.yaml", `{id: waits, inputs: {prompt: x}, script: [{run: {command: [sh, -c, "until [ -e `+p.path("go")+` ]; do sleep 0.05; done"]}}, {say: done}]}`)
	first := newServed(t, p.start("serve"))
	if runs := first.runs(); len(runs) != 0 || !strings.Contains(first.command.stdout.String(), "0 runs in .waza/runs\n") {
		t.Errorf("before anything was run: %+v\n%s", runs, first.command.stdout.String())
	}
	run := p.start("run", "eval.yaml")
	var id string
	run.await("its first trial has ended", func() bool {
		runs := first.runs()
		if len(runs) == 1 {
			id = runs[0].ID
		}
		return len(runs) == 1 && runs[0].State == view.StateRunning && runs[0].Done == 1
	})
	atWork := func(p view.RunProgress) bool {
		return p.State == view.StateRunning && p.Done == 1 &&
			slices.ContainsFunc(p.Trials, func(t view.TrialProgress) bool { return t.Task == "waits" && t.Phase == "agent at work" })
	}
	first.follow(id, atWork)
	if page := first.page("/runs/" + id + "/overview"); !strings.Contains(page, "at work") || !strings.Contains(page, `data-live="/runs/`+id+`/events"`) {
		t.Error("the page does not say that the run is at work")
	}
	first.page("/runs/" + id + "/trial/quick/1")
	first.command.signal(os.Interrupt)
	first.command.wait(exitOK)

	second := newServed(t, p.start("serve", ".waza/runs"))
	events := second.follow(id, atWork)
	p.write("go", "")
	events.until(func(p view.RunProgress) bool {
		return p.State == view.StateEnded && p.Done == 2 && p.Outcomes[evidence.ClassPass] == 2
	})
	run.wait(exitOK)
	if runs := second.runs(); len(runs) != 1 || runs[0].State != view.StateEnded || runs[0].Verdict != "passed" {
		t.Errorf("at the end: %+v", runs)
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
	if runs := s.runs(); len(runs) != 0 {
		t.Errorf("%+v", runs)
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
