package trial

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// TestConclude decides outcomes by notes.
func TestConclude(t *testing.T) {
	agent := note{class: evidence.ClassAgentError, reason: evidence.ReasonExitCode, message: "it failed"}
	lost := note{class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "lost", unsure: true}
	disk := note{class: evidence.ClassInfra, reason: evidence.ReasonRunner, message: "the disk is full", ours: true}
	spent := note{class: evidence.ClassAgentError, reason: evidence.ReasonBudget, message: "spent", weak: true}
	remark, gap := note{message: "a key was rejected"}, gapNote("workspace", "gone")
	for name, test := range map[string]struct {
		notes   []note
		class   evidence.Class
		reason  evidence.Reason
		message string
		gaps    int
	}{
		"nothing":                        {nil, "", "", "", 0},
		"the first blame decides":        {[]note{agent, disk}, evidence.ClassAgentError, evidence.ReasonExitCode, "it failed; the disk is full", 0},
		"ours before the agent's":        {[]note{disk, agent}, evidence.ClassInfra, evidence.ReasonRunner, "the disk is full; it failed", 0},
		"an unsure one stays":            {[]note{lost, agent}, evidence.ClassAgentError, evidence.ReasonOutput, "lost; it failed", 0},
		"an unsure one gives way":        {[]note{lost, gap, disk}, evidence.ClassInfra, evidence.ReasonRunner, "the disk is full", 1},
		"an unsure one behind another":   {[]note{agent, lost, disk}, evidence.ClassAgentError, evidence.ReasonExitCode, "it failed; lost; the disk is full", 0},
		"a weak one alone":               {[]note{remark, spent}, evidence.ClassAgentError, evidence.ReasonBudget, "spent", 0},
		"a weak one behind another":      {[]note{agent, spent, remark}, evidence.ClassAgentError, evidence.ReasonExitCode, "it failed; a key was rejected", 0},
		"gaps and remarks blame no one":  {[]note{gap, remark, gap}, "", "", "a key was rejected", 2},
		"a gap is not part of a message": {[]note{agent, gap}, evidence.ClassAgentError, evidence.ReasonExitCode, "it failed", 1},
	} {
		c := conclude(test.notes)
		if c.class != test.class || c.reason != test.reason || c.message != test.message || len(c.gaps) != test.gaps {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestEndings decides who is to blame for each way in which an agent can end.
func TestEndings(t *testing.T) {
	script := &plan.Trial{Timeout: time.Minute, FirstEvent: 2 * time.Second}
	script.Agent.Executor = evidence.ExecutorScript
	zero, one := int64(0), int64(1)
	over := &evidence.Usage{OOMKills: &one, ForksRefused: &zero}
	for name, test := range map[string]struct {
		ending  ending
		class   evidence.Class
		reason  evidence.Reason
		message string
	}{
		"by itself":           {ending{ended: true}, "", "", ""},
		"a code":              {ending{ended: true, exit: process.Exit{Code: 7}, failed: errors.New("code 7")}, evidence.ClassAgentError, evidence.ReasonExitCode, "code 7"},
		"a script's surprise": {ending{ended: true, exit: process.Exit{Code: agents.ExitUnexpected}}, "", "", ""},
		"a signal":            {ending{ended: true, exit: process.Exit{Signal: "SIGSEGV"}}, evidence.ClassAgentError, evidence.ReasonSignal, "the agent was ended by SIGSEGV"},
		"no status": {ending{ended: true, lost: errors.New("the connection ended")}, evidence.ClassAgentError, evidence.ReasonGuest,
			"the agent broke its container's guest: the connection ended"},
		"a broken guest": {ending{ended: true, container: sandbox.Exit{Cause: sandbox.ByBreach, Message: "a wrong frame"}}, evidence.ClassAgentError, evidence.ReasonMux,
			"the agent broke its container's guest: a wrong frame"},
		"its time is over": {ending{ended: true, stopped: timeLimit, exit: process.Exit{Signal: "SIGTERM"}}, evidence.ClassTimeout, evidence.ReasonTimeLimit,
			"the agent ran longer than 1m0s"},
		"no first event": {ending{ended: true, stopped: noFirstEvent}, evidence.ClassTimeout, evidence.ReasonNoEvent,
			"the agent said nothing, asked no model and called no tool within 2s"},
		"too much output": {ending{ended: true, stopped: outputLimit, floods: []string{"9 bytes to stdout"}, exit: process.Exit{Signal: "SIGTERM"}}, evidence.ClassAgentError, evidence.ReasonOutput,
			"the agent wrote more than 9 bytes to stdout"},
		"out of memory": {ending{ended: true, used: over, exit: process.Exit{Signal: "SIGKILL"}}, evidence.ClassAgentError, evidence.Reason(observe.OOM),
			"the agent's container ran out of memory: the kernel ended 1 program(s)"},
		"overspent":       {ending{ended: true, stopped: budgetLimit, overspent: "too many calls"}, evidence.ClassAgentError, evidence.ReasonBudget, "too many calls"},
		"time and budget": {ending{ended: true, stopped: timeLimit, overspent: "too many calls"}, evidence.ClassTimeout, evidence.ReasonTimeLimit, "the agent ran longer than 1m0s; too many calls"},
		"killed in vain":  {ending{}, evidence.ClassAgentError, evidence.ReasonGuest, "the agent did not end when it was killed"},
		"killed in vain for its time": {ending{stopped: timeLimit}, evidence.ClassTimeout, evidence.ReasonTimeLimit,
			"the agent ran longer than 1m0s and did not end when it was killed"},
		"killed in vain for its output": {ending{stopped: outputLimit}, evidence.ClassAgentError, evidence.ReasonOutput,
			"the agent wrote more than it may and did not end when it was killed"},
		"killed in vain for its budget": {ending{stopped: budgetLimit, overspent: "too many calls"}, evidence.ClassAgentError, evidence.ReasonBudget,
			"too many calls, and the agent did not end when it was killed"},
	} {
		c := conclude(test.ending.notes(script))
		if c.class != test.class || c.reason != test.reason || c.message != test.message {
			t.Errorf("%s: %+v", name, c)
		}
		if gap := slices.Contains(c.gaps, "final output: the agent did not end"); gap == test.ending.ended {
			t.Errorf("%s: gaps %q", name, c.gaps)
		}
	}
	if e := (ending{ended: true, exit: process.Exit{Code: agents.ExitUnexpected}}); !e.isUnexpected(script) || e.isUnexpected(&plan.Trial{}) {
		t.Error("an agent that is no script has no unexpected answers")
	}
}
