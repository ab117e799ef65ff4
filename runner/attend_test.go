package runner

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

func TestTheAgentsEnd(t *testing.T) {
	breaks := program{run: func(p *fakeProcess) int {
		io.WriteString(p.out, "4.20")
		p.end(process.Exit{}, errGone)
		return 0
	}}
	killed := program{run: func(p *fakeProcess) int {
		p.end(process.Exit{Code: -1, Signal: "SIGSEGV"}, nil)
		return 0
	}}
	unread := program{run: func(p *fakeProcess) int { io.WriteString(p.out, "4.20"); return 0 }}
	late := func(prog program) program {
		prog.run = func(p *fakeProcess) int { io.WriteString(p.out, "4.20"); <-p.ctx.Done(); return 0 }
		return prog
	}
	for _, test := range []struct {
		name   string
		agent  program
		class  evidence.Class
		reason string
		took   time.Duration
		signal string
	}{
		{"well", unread, evidence.ClassPass, "", 0, ""},
		{"code", ends(3), evidence.ClassAgentError, "the agent exited with code 3", 0, ""},
		{"signal", killed, evidence.ClassAgentError, "the agent was ended by SIGSEGV", 0, "SIGSEGV"},
		{"breaks its guest", breaks, evidence.ClassAgentError, "the agent broke its container's guest: container went away", 0, ""},
		{"late", late(program{}), evidence.ClassTimeout, "the agent ran longer than 1m0s", time.Minute, "SIGTERM"},
		{"late and deaf", late(program{deaf: true}), evidence.ClassTimeout, "the agent ran longer than 1m0s", time.Minute + 2*time.Second, "SIGKILL"},
		{"late and beyond us", late(program{immortal: true}), evidence.ClassTimeout, "did not end when it was killed", time.Minute + 12*time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Agent.Prompt = strings.Repeat("p", 1<<12) // which none of these agents reads
				b.programs[sandbox.Agent] = test.agent
				r := runOne(t, b, trial, options(t))
				wantOutcome(t, r, test.class, test.reason)
				if took := r.Trial.AgentEnd.Sub(r.Trial.AgentStart); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if beyond := test.agent.immortal; beyond != (r.Trial.FinalOutput == "" && len(r.Trial.Gaps) == 1) && test.took > 0 {
					t.Errorf("final output %q, gaps %q", r.Trial.FinalOutput, r.Trial.Gaps)
				}
				if r.Trial.Signal != test.signal {
					t.Errorf("signal %q, want %q", r.Trial.Signal, test.signal)
				}
				if len(r.Verdicts.Verdicts) != 1 {
					t.Errorf("verdicts %v, want one for the record", r.Verdicts.Verdicts)
				}
			})
		})
	}
}

// A launch that hangs keeps the proxy from closing in time. What comes after has
// time of its own.
func TestDrainingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend()
		b.on["start stock"] = func(number int) error {
			if number == 2 { // the session's, after the probe's
				time.Sleep(time.Hour)
				return errGone
			}
			return nil
		}
		r := runOne(t, b, testTrial(1), options(t))
		wantOutcome(t, r, evidence.ClassTimeout, "the agent ran longer than 1m0s; proxy: close: context deadline exceeded")
		if strings.Contains(r.Trial.Message, "context that had ended") {
			t.Errorf("the sandbox had no time left: %q", r.Trial.Message)
		}
		time.Sleep(time.Hour) // until the launch is over
	})
}
