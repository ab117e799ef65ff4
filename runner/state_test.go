package runner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// tallyServer counts calls in the memory of each of its processes, and answers with the
// process's number and count.
func tallyServer(started, running *atomic.Int64) program {
	return program{run: func(p *fakeProcess) int {
		me, count := started.Add(1), 0
		running.Add(1)
		defer running.Add(-1)
		serveTool(p, "tally", func() string {
			count++
			return fmt.Sprintf(`{"content":[],"structuredContent":{"process":%d,"count":%d}}`, me, count)
		})
		return 0
	}}
}

// stateTrial asks the server stock what process it is and how often it was called.
func stateTrial(process, count int) *plan.Trial {
	t := testTrial(1)
	t.Servers[0].Transport = "stdio"
	t.Graders = []evidence.GraderSpec{grader("state", fmt.Sprintf(
		`{"server":"stock","calls":[{"tool":"t","result":{"match":"exact","values":{"process":%d,"count":%d}}}]}`, process, count))}
	return t
}

// visitor is an agent that opens sessions, calls a tool in each, and ends some.
func visitor(sessions int, ends func(session int) bool) program {
	return program{run: func(p *fakeProcess) int {
		for session := range sessions {
			c := &mcpClient{http: &http.Client{Transport: &http.Transport{DialContext: p.container.dial, DisableKeepAlives: true}}, url: "http://stock/mcp"}
			_, err := c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
			if err == nil {
				_, err = c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`)
			}
			if err == nil && ends(session) {
				err = c.leave()
			}
			if err != nil {
				fmt.Fprintln(p.err, err)
				return 1
			}
		}
		return 0
	}}
}

func (c *mcpClient) leave() error {
	r, err := http.NewRequest(http.MethodDelete, c.url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Mcp-Session-Id", c.session)
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// The process of the session that was opened last is asked, whichever sessions the
// agent ended, and every process has ended with the trial.
func TestStateAsksTheLastProcess(t *testing.T) {
	for name, test := range map[string]struct {
		sessions       int
		ends           func(int) bool
		process, count int
	}{
		"one, left open":             {1, func(int) bool { return false }, 2, 2},
		"one, ended by the agent":    {1, func(int) bool { return true }, 2, 2},
		"three, all left open":       {3, func(int) bool { return false }, 4, 2},
		"three, all ended":           {3, func(int) bool { return true }, 4, 2},
		"three, the first left":      {3, func(s int) bool { return s > 0 }, 4, 2},
		"none: a process of its own": {0, nil, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var started, running atomic.Int64
			b := testBackend()
			b.programs["stock"] = tallyServer(&started, &running)
			b.programs[sandbox.Agent] = visitor(test.sessions, test.ends)
			r := runOne(t, b, stateTrial(test.process, test.count), options(t))
			wantOutcome(t, r, evidence.ClassPass, "")
			calls, err := r.Dir.Calls()
			if err != nil || len(calls) != test.sessions {
				t.Errorf("%d calls, %v; want the agent's %d", len(calls), err, test.sessions)
			}
			if n := running.Load(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func TestStateOfAServerThatIsGone(t *testing.T) {
	for _, test := range []struct {
		name   string
		ending sandbox.Exit
		class  evidence.Class
		want   string
	}{
		{"by itself", sandbox.Exit{Cause: sandbox.ByItself, Message: "went away"}, evidence.ClassFail, "failed: state"},
		{"by somebody", sandbox.Exit{Cause: sandbox.FromOutside, Message: "was killed through the engine"}, evidence.ClassInfra, "was killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var started, running atomic.Int64
			b := testBackend()
			b.programs["stock"] = tallyServer(&started, &running)
			b.programs[sandbox.Agent] = visitor(1, func(int) bool { return true })
			b.onTrial = func(act string, s *fakeSandbox) error {
				if act == "collect agent /workspace" {
					s.lose("stock", test.ending)
					s.mu.Lock()
					last := s.processes[len(s.processes)-1]
					s.mu.Unlock()
					_ = last.stdin.Close()
				}
				return nil
			}
			r := runOne(t, b, stateTrial(2, 2), options(t))
			wantOutcome(t, r, test.class, test.want)
		})
	}
}

// Secrets are redacted in the answers of servers' steps, and a check of such an answer is an error.
func TestStepsAreRedacted(t *testing.T) {
	o := options(t)
	o.Host.Secrets.Add("process-two")
	b := testBackend()
	b.programs["stock"] = stockServer("it is process-two", "")
	b.programs[sandbox.Agent] = ends(0)
	trial := stateTrial(2, 1)
	trial.Graders[0].Config = json.RawMessage(`{"server":"stock","calls":[{"tool":"t","contains":"it is"}]}`)
	r := runOne(t, b, trial, o)
	wantOutcome(t, r, evidence.ClassError, "could not judge: state")
	if text := readAll(t, r.Dir, evidence.StepsFile); strings.Contains(text, "process-two") || !strings.Contains(text, "it is ") {
		t.Errorf("steps.jsonl: %s", text)
	}
}
