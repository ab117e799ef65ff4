package runner

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

func of[T any](v T) *T { return &v }

// As the reason of a failure, a limit that the agent exceeded takes precedence over its exit
// status, and a timeout over both.
func TestBreachesAreTheAgents(t *testing.T) {
	killed := program{run: func(p *fakeProcess) int {
		p.end(process.Exit{Code: -1, Signal: "SIGKILL"}, nil)
		return 0
	}}
	lost := program{run: func(p *fakeProcess) int { p.end(process.Exit{}, errGone); return 0 }}
	oom := evidence.Usage{OOMKills: of(int64(1))}
	for name, test := range map[string]struct {
		agent  program
		used   evidence.Usage
		class  evidence.Class
		reason evidence.Reason
		says   string
	}{
		"nothing":         {says("4.20"), evidence.Usage{OOMKills: of(int64(0)), Memory: &observe.Level{Peak: 9}}, evidence.ClassPass, "", ""},
		"killed":          {killed, oom, evidence.ClassAgentError, evidence.ReasonOOM, "the agent's container ran out of memory"},
		"a child":         {says("4.20"), oom, evidence.ClassAgentError, evidence.ReasonOOM, "the agent's container ran out of memory"},
		"exit code":       {ends(137), oom, evidence.ClassAgentError, evidence.ReasonOOM, "ran out of memory"},
		"its guest":       {lost, oom, evidence.ClassAgentError, evidence.ReasonOOM, "ran out of memory"},
		"too late":        {lasts(), oom, evidence.ClassTimeout, evidence.ReasonTimeLimit, "ran longer than 1m0s; the agent's container ran out of memory"},
		"pids":            {ends(2), evidence.Usage{ForksRefused: of(int64(3))}, evidence.ClassAgentError, evidence.ReasonPids, "refused 3"},
		"disk":            {ends(1), evidence.Usage{Disks: map[string]observe.Disk{"/tmp": {Size: 7, Full: true}}}, evidence.ClassAgentError, evidence.ReasonDisk, "filled /tmp"},
		"several at once": {ends(1), evidence.Usage{OOMKills: of(int64(1)), ForksRefused: of(int64(3))}, evidence.ClassAgentError, evidence.ReasonOOM, "; the agent's container ran out of processes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Servers = nil
				b.programs[sandbox.Agent] = test.agent
				b.used = map[string]evidence.Usage{sandbox.Agent: test.used}
				r := runOne(t, b, trial, options(t))
				wantOutcome(t, r, test.class, test.says)
				if r.Verdicts.Reason != test.reason {
					t.Errorf("reason %q, want %q", r.Verdicts.Reason, test.reason)
				}
				if len(r.Verdicts.Verdicts) != 1 {
					t.Errorf("verdicts %v, want one for the record", r.Verdicts.Verdicts)
				}
			})
		})
	}
}

// An agent that writes without end is ended, and what it wrote is kept up to its
// limit.
func TestAgentThatWritesTooMuch(t *testing.T) {
	for _, stream := range []string{"stdout", "stderr"} {
		t.Run(stream, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Servers = nil
				trial.Agent.MaxOutput = 1000
				b.programs[sandbox.Agent] = program{deaf: true, run: func(p *fakeProcess) int {
					out := p.out
					if stream == "stderr" {
						out = p.err
					}
					for p.ctx.Err() == nil {
						io.WriteString(out, strings.Repeat("x", 100))
						time.Sleep(time.Millisecond)
					}
					return 0
				}}
				r := runOne(t, b, trial, options(t))
				wantOutcome(t, r, evidence.ClassAgentError, "the agent wrote more than 1000 bytes to "+stream)
				if r.Verdicts.Reason != evidence.ReasonOutput {
					t.Errorf("reason %q", r.Verdicts.Reason)
				}
				if took := r.Trial.AgentEnd.Sub(r.Trial.AgentStart); took > 3*time.Second {
					t.Errorf("it ran for %v", took)
				}
				if kept := readEvidence(t, r, "agent."+stream); len(kept) != 1000 {
					t.Errorf("%d bytes are kept", len(kept))
				}
			})
		})
	}
}

func TestResourcesAreOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, trial := testBackend(), testTrial(1)
		trial.Agent.Container = sandbox.Container{Image: "agent", CPUs: 2, Memory: 5 << 20, Disk: 1 << 20, Pids: 9, OpenFiles: 100, Scratch: 7}
		trial.Servers[0].MaxFrames, trial.Servers[0].Memory = 50, 3<<20
		used := evidence.Usage{Memory: &observe.Level{Peak: 4 << 20, Now: 1}, Pids: &observe.Level{Peak: 3, Now: 1}}
		b.used = map[string]evidence.Usage{sandbox.Agent: used}
		o := options(t)
		r := runOne(t, b, trial, o)
		wantOutcome(t, r, evidence.ClassPass, "")
		want := map[string]evidence.Resource{
			sandbox.Agent: {
				Limits: evidence.Limits{CPUs: 2, Memory: 5 << 20, Pids: 9, OpenFiles: 100, Disk: 1 << 20, Scratch: 7, Seconds: 60, MaxOutput: plan.DefaultOutput, MaxCalls: proxy.DefaultCalls},
				Used:   &used,
			},
			"stock": {
				Limits: evidence.Limits{Memory: 3 << 20, MaxMessage: transport.DefaultMessage, MaxFrames: 50, MaxTraffic: transport.DefaultTraffic},
				Unseen: "nobody looks",
			},
		}
		read, err := r.Dir.Trial()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read.Resources); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func readEvidence(t *testing.T, r Result, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(r.Dir), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
