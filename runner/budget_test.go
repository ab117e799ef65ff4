package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

// fourEach has a trial of one server run where agent and server have 4 MiB each.
func fourEach(t *testing.T) (*plan.Trial, Options) {
	one, o := testTrial(1), options(t)
	one.Timeout, one.Servers[0].Timeout = 5*time.Minute, time.Minute
	room := trial.LeastShare(one) + runReserve + trialReserve + 2*trial.SizeOf(one.Files)
	o.Free = func() (int64, bool) { return room, true }
	return one, o
}

// asking is an agent that calls the tool of "stock" the given number of times, with
// arguments of size bytes, and then does what buyer does.
func asking(times, size int) program {
	return program{run: func(p *fakeProcess) int {
		c, err := openSession(p.container, "stock")
		if err != nil {
			return 1
		}
		for i := range times {
			_, _ = c.post(callWith(i+2, size))
		}
		io.WriteString(p.out, "4.20")
		return 0
	}}
}

func callWith(id, size int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"price","arguments":{"item":"%s"}}}`, id, strings.Repeat("x", size))
}

// chatty is a server that calls says before each of its answers.
func chatty(says func(p *fakeProcess)) program {
	return program{run: func(p *fakeProcess) int {
		serveTool(p, "stock", func() string { says(p); return `{"content":[{"type":"text","text":"4.20"}]}` })
		return 0
	}}
}

// TestSharesOfEvidence fills the evidence in each way that there is, and looks who is blamed,
// whether the graders were asked, and how much was written.
func TestSharesOfEvidence(t *testing.T) {
	const half = 512 << 10
	notify := func(p *fakeProcess) {
		for range 20 {
			fmt.Fprintf(p.out, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}`+"\n", strings.Repeat("x", half))
		}
	}
	complain := func(p *fakeProcess) { _, _ = p.err.Write(make([]byte, 5<<20)) }
	ping := func(p *fakeProcess) {
		for i := range 3000 {
			fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		}
	}
	for name, test := range map[string]struct {
		agent, server program
		byAgent       bool // the agent is blamed, and the server is not; else the other way round
	}{
		"arguments":       {asking(10, half), stockServer("4.20", ""), true},
		"answers":         {asking(10, 10), stockServer(strings.Repeat("x", half), ""), true},
		"output":          {says(strings.Repeat("4.20 ", 2<<20)), stockServer("4.20", ""), true},
		"workspace":       {leaves("/workspace/big", fakeFile{content: strings.Repeat("x", 5<<20)}), stockServer("4.20", ""), true},
		"made-up answers": {answering(0, 4000), stockServer("4.20", ""), true},
		"notifications":   {asking(2, 10), chatty(notify), false},
		"stderr":          {asking(2, 10), chatty(complain), false},
		"questions":       {answering(256<<10, 3000), chatty(ping), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial, o := fourEach(t)
			trial.Agent.Disk = 64 << 20
			b := testBackend()
			b.programs[sandbox.Agent], b.programs["stock"] = test.agent, test.server
			r := runOne(t, b, trial, o)
			if blamed := r.Verdicts.Class == evidence.ClassAgentError; blamed != test.byAgent || r.Verdicts.Class == evidence.ClassInfra {
				t.Errorf("outcome %s, %s: %s", r.Verdicts.Class, r.Verdicts.Reason, r.Verdicts.Message)
			}
			if len(r.Verdicts.Verdicts) != 1 {
				t.Errorf("verdicts %+v", r.Verdicts.Verdicts)
			}
			if failed := callsThatFailed(t, r.Dir); (failed > 0) == test.byAgent {
				t.Errorf("%d calls ended as transport_error", failed)
			}
			if size := sizeBelow(t, string(r.Dir)); size > 8<<20 {
				t.Errorf("%d bytes were written", size)
			}
		})
	}
}

// answering is an agent that calls a tool with so large arguments, gives so many answers to
// what the server asked, or did not, and calls again.
func answering(size, answers int) program {
	return program{run: func(p *fakeProcess) int {
		c, err := openSession(p.container, "stock")
		if err != nil {
			return 1
		}
		_, _ = c.post(callWith(-1, size))
		for i := range answers {
			_, _ = c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
		}
		_, _ = c.post(callWith(-2, 10))
		io.WriteString(p.out, "4.20")
		return 0
	}}
}

// What the agent asked for is its own also where it came too late.
func TestLateAnswersAreTheAgents(t *testing.T) {
	t.Parallel()
	trial, o := fourEach(t)
	trial.Servers[0].Timeout = 20 * time.Millisecond
	late := make(chan struct{}) // the last call has timed out
	b := testBackend()
	b.programs["stock"] = program{run: func(p *fakeProcess) int {
		serveTool(p, "stock", func() string {
			select {
			case <-late:
			case <-p.ctx.Done():
			}
			return `{"content":[{"type":"text","text":"` + strings.Repeat("x", 512<<10) + `"}]}`
		})
		return 0
	}}
	b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
		c, err := openSession(p.container, "stock")
		if err != nil {
			return 1
		}
		for i := range 5 {
			said, err := c.post(callWith(i+2, 10))
			if err != nil || !strings.Contains(said, `"waza":"timeout"`) {
				break // it reached no server
			}
			late <- struct{}{}
		}
		return 0
	}}
	r := runOne(t, b, trial, o)
	wantOutcome(t, r, evidence.ClassAgentError, "which is its share")
	if failed := callsThatFailed(t, r.Dir); failed > 0 {
		t.Errorf("%d calls ended as transport_error", failed)
	}
}

func callsThatFailed(t *testing.T, dir evidence.Dir) (n int) {
	t.Helper()
	calls, err := dir.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if call.Outcome == evidence.OutcomeTransportError {
			n++
		}
	}
	return n
}

func sizeBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		n += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// No trial is started if there is not enough space for the smallest one.
func TestNoRoomBeforeTheFirstTrial(t *testing.T) {
	trial, o := fourEach(t)
	room, _ := o.Free()
	o.Free = func() (int64, bool) { return room - 1, true }
	b := testBackend()
	results, err := runTrials(t, t.Context(), b, []*plan.Trial{trial}, o)
	if len(results) != 0 || !errors.Is(err, errNoSpace) || len(b.opened()) != 0 {
		t.Errorf("%d results, %d sandboxes, %v", len(results), len(b.opened()), err)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Where somebody else fills the disk after that, it is nobody's fault in the trial.
func TestRoomThatOthersTake(t *testing.T) {
	trial, o := fourEach(t)
	room, asked := int64(0), 0
	room, _ = o.Free()
	o.Free = func() (int64, bool) {
		if asked++; asked > 1 {
			return 1 << 20, true
		}
		return room, true
	}
	b := testBackend()
	r := runOne(t, b, trial, o)
	wantOutcome(t, r, evidence.ClassInfra, "1.0 MiB are left for a trial that needs 8.0 MiB")
	if r.Verdicts.Reason != evidence.ReasonRunner || len(b.opened()) != 0 {
		t.Errorf("reason %s, %d sandboxes", r.Verdicts.Reason, len(b.opened()))
	}
}

// Room is divided by the trials at once, and by up to eight where the parts are large enough.
func TestBudget(t *testing.T) {
	const least = 8 << 20
	for _, test := range []struct {
		trials, workers int
		parts           int64 // of the least that a trial needs
		each            int64 // MiB
	}{
		{1, 1, 4, 32},
		{1, 4, 4, 32},
		{3, 1, 6, 16},
		{100, 1, 16, 16},
		{100, 1, 4, 8},
		{100, 16, 32, 16},
		{100, 4, 3, 0},
	} {
		var trials []*plan.Trial
		for n := range test.trials {
			trial := testTrial(n + 1)
			trial.Files = nil
			trials = append(trials, trial)
		}
		free := test.parts*least + runReserve + int64(test.trials)*trialReserve
		b, err := newBudget(func() (int64, bool) { return free, true }, trials, test.workers)
		if test.each == 0 {
			if !errors.Is(err, errNoSpace) {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		if err != nil || b.each != test.each<<20 {
			t.Errorf("%+v: %+v, %v", test, b, err)
		}
	}
}

// A trial has what is left by those under way and by the reports of those before it.
func TestBudgetOfTrialsAtOnce(t *testing.T) {
	const least = 8 << 20
	trials := []*plan.Trial{testTrial(1), testTrial(2), testTrial(3)}
	for _, trial := range trials {
		trial.Files = nil
	}
	free := int64(6*least + runReserve + 3*trialReserve)
	b, err := newBudget(func() (int64, bool) { return free, true }, trials, 3)
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.begin(trials[0])
	if err != nil || first.Agent.Max() != least || first.Servers["stock"].Max() != least {
		t.Fatalf("%d and %d, %v", first.Agent.Max(), first.Servers["stock"].Max(), err)
	}
	free = 3 * least // 2 of them are promised
	if _, err := b.begin(trials[1]); err != nil {
		t.Error(err)
	}
	if _, err := b.begin(trials[2]); !errors.Is(err, errNoSpace) {
		t.Errorf("all is promised: %v", err)
	}
	b.end(trials[0])
	if s, err := b.begin(trials[2]); err != nil || s.Agent.Max() != least {
		t.Errorf("%d, %v", s.Agent.Max(), err)
	}
}
