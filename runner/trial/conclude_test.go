package trial

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// second returns the time of a trial's second.
func second(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

// scripted is the plan of a trial whose agent is a script.
func scripted() *plan.Trial {
	t := &plan.Trial{Timeout: time.Minute, FirstEvent: 2 * time.Second}
	t.Agent.Executor = evidence.ExecutorScript
	return t
}

// ended returns what the phases of a trial returned whose agent ran from second 1 to 5.
func ended(e ending) everything {
	e.ended = true
	return everything{plan: scripted(), began: second(0), ended: second(9), ran: agentRun{started: second(1), ended: second(5), ending: &e}}
}

// failing returns what the phases of a trial returned that failed.
func failing(err error) everything {
	return everything{plan: scripted(), failed: failure{second(3), err}}
}

// leaving returns what the phases of a trial returned whose agent left something.
func leaving(midway bool, losses ...loss) everything {
	all := ended(ending{})
	all.left = collected{final: finalOutput{text: "bye"}, losses: losses, midway: midway, at: second(6)}
	return all
}

func with(all everything, change func(*everything)) everything {
	change(&all)
	return all
}

// concluded are trials and their outcomes.
var concluded = map[string]struct {
	all      everything
	class    evidence.Class
	reason   evidence.Reason
	message  string
	gaps     []string
	ofServer string
}{
	"a good end": {all: ended(ending{})},
	"a code": {
		all: ended(ending{exit: process.Exit{Code: 7}, failed: errors.New("code 7")}), class: evidence.ClassAgentError, reason: evidence.ReasonExitCode, message: "code 7",
	},
	"a signal": {
		all:   ended(ending{exit: process.Exit{Signal: "SIGSEGV"}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonSignal, message: "the agent was ended by SIGSEGV",
	},
	"a lost guest": {
		all:   ended(ending{lost: errors.New("EOF")}),
		class: evidence.ClassAgentError, reason: evidence.ReasonGuest, message: "the agent broke its container's guest: EOF",
	},
	"a broken guest": {
		all:   ended(ending{container: sandbox.Exit{Cause: sandbox.ByBreach, Message: "a wrong frame"}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonMux, message: "the agent broke its container's guest: a wrong frame",
	},
	"no memory": {
		all:   ended(ending{used: &evidence.Usage{OOMKills: new(int64(1))}, exit: process.Exit{Signal: "SIGKILL"}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOOM, message: "the agent's container ran out of memory: the kernel ended 1 program(s)",
	},
	"no processes": {
		all:   ended(ending{used: &evidence.Usage{ForksRefused: new(int64(2))}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonPids, message: "the agent's container ran out of processes: it was refused 2",
	},
	"no disk": {
		all:   ended(ending{used: &evidence.Usage{Disks: map[string]observe.Disk{"/workspace": {Size: 9, Full: true}}}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonDisk, message: "the agent's container filled /workspace, which holds 9 bytes",
	},
	"a time limit": {
		all:   ended(ending{stops: []stop{{second(4), timeLimit}}, exit: process.Exit{Signal: "SIGTERM"}}),
		class: evidence.ClassTimeout, reason: evidence.ReasonTimeLimit, message: "the agent ran longer than 1m0s",
	},
	"no first event": {
		all:   ended(ending{stops: []stop{{second(3), noFirstEvent}}}),
		class: evidence.ClassTimeout, reason: evidence.ReasonNoEvent, message: "the agent said nothing, asked no model and called no tool within 2s",
	},
	"too much output": {
		all:   ended(ending{stops: []stop{{second(4), outputLimit}}, floods: []string{"9 bytes to stdout"}, exit: process.Exit{Signal: "SIGTERM"}}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent wrote more than 9 bytes to stdout",
	},
	"too many calls": {
		all:   ended(ending{stops: []stop{{second(4), budgetLimit}}, overspent: "it called too often"}),
		class: evidence.ClassAgentError, reason: evidence.ReasonBudget, message: "it called too often",
	},
	"the first limit decides": {
		all: ended(ending{
			stops:  []stop{{second(4), timeLimit}, {second(3), outputLimit}},
			floods: []string{"9 bytes to stdout"}, overspent: "it called too often",
		}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent wrote more than 9 bytes to stdout; it called too often",
	},
	"a limit after the first": {
		all: ended(ending{
			stops:  []stop{{second(4), outputLimit}, {second(3), timeLimit}},
			floods: []string{"9 bytes to stdout"},
		}),
		class: evidence.ClassTimeout, reason: evidence.ReasonTimeLimit, message: "the agent ran longer than 1m0s; the agent wrote more than 9 bytes to stdout",
	},
	"a final output that is too long": {
		all:   with(ended(ending{}), func(all *everything) { all.ran.overlong = true }),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent's final output is larger than 16777216 bytes",
		gaps: []string{"final output: only the first 16777216 bytes are kept"},
	},
	"a rejected key": {
		all:     with(ended(ending{}), func(all *everything) { all.ran.refused = []string{"the key was rejected"} }),
		message: "the key was rejected",
	},
	"no reply of the user": {
		all: with(ended(ending{exit: process.Exit{Code: 7}, failed: errors.New("code 7")}), func(all *everything) {
			all.ran.turns.silence = failure{second(2), errors.New("no answer")}
		}),
		class: evidence.ClassError, reason: evidence.ReasonResponder, message: "no answer",
	},
	"a script's surprise": {
		all: with(ended(ending{exit: process.Exit{Code: agents.ExitUnexpected}}), func(all *everything) {
			all.complaint, all.ran.unmet = complaint{message: "want 4, got 5"}, "not asked"
		}),
		class: evidence.ClassFail, reason: evidence.ReasonServer, message: "want 4, got 5",
	},
	"a script whose server ended": {
		all: with(ended(ending{exit: process.Exit{Code: agents.ExitUnexpected}}), func(all *everything) {
			all.complaint = complaint{message: "no answer", server: "crm"}
		}),
		class: evidence.ClassServerError, reason: evidence.ReasonServer, message: "no answer", ofServer: "crm",
	},
	"a script that did not expect a fault": {
		all: with(ended(ending{exit: process.Exit{Code: agents.ExitUnexpected}}), func(all *everything) {
			all.complaint = complaint{message: "no answer", fault: evidence.FaultDrop}
		}),
		class: evidence.ClassFail, reason: evidence.ReasonFault, message: "no answer; waza made the fault drop of this call",
	},
	"a script that is too late": {
		all: with(ended(ending{stops: []stop{{second(4), timeLimit}}, exit: process.Exit{Code: agents.ExitUnexpected}}), func(all *everything) {
			all.complaint = complaint{message: "no answer", server: "crm"}
		}),
		class: evidence.ClassTimeout, reason: evidence.ReasonTimeLimit, message: "the agent ran longer than 1m0s",
	},
	"a wrong request of a server": {
		all:   with(ended(ending{}), func(all *everything) { all.ran.unmet = "no such field" }),
		class: evidence.ClassFail, reason: evidence.ReasonServer, message: "no such field",
	},
	"no workspace": {
		all:   leaving(false, loss{evidence.GapWorkspace, uncollected, sandbox.ErrUnreadable}),
		class: evidence.ClassFail, reason: evidence.ReasonOutput, message: "the agent removed its workspace, or put something else in its place",
		gaps: []string{"workspace: " + sandbox.ErrUnreadable.Error()},
	},
	"a workspace that is too large": {
		all:   leaving(false, loss{evidence.GapWorkspace, uncollected, errTooLarge}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent's workspace, holes filled in, is larger than its limit allows",
		gaps: []string{"workspace: is larger than its limit allows"},
	},
	"a workspace that was lost": {
		all:   leaving(false, loss{evidence.GapWorkspace, uncollected, errors.New("EOF")}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent's workspace cannot be collected: EOF",
		gaps: []string{"workspace: EOF"},
	},
	"a workspace that was lost with the disk": {
		all: with(leaving(false, loss{evidence.GapWorkspace, uncollected, errors.New("EOF")}), func(all *everything) {
			all.failed = failure{second(7), errors.New("the disk is full")}
		}),
		class: evidence.ClassInfra, reason: evidence.ReasonRunner, message: "the disk is full",
		gaps: []string{"workspace: EOF"},
	},
	"a closed workspace": {
		all:   leaving(false, loss{"", shut, errors.New("it closed its workspace")}, loss{"", partial, errors.New("a file is cut")}),
		class: evidence.ClassFail, reason: evidence.ReasonOutput, message: "it closed its workspace; a file is cut",
	},
	"a file that is cut": {
		all:   leaving(false, loss{"", partial, errors.New("a file is cut")}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "a file is cut",
	},
	"no final output": {
		all:   leaving(false, loss{evidence.GapFinalOutput, absent, errNoMessage}),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "the agent left no final output: its transcript has no message",
		gaps: []string{"final output: its transcript has no message"},
	},
	"no final output midway": {
		all:  leaving(true, loss{evidence.GapFinalOutput, absent, errNoMessage}, loss{evidence.GapFinalOutput, overlong, nil}),
		gaps: []string{"final output: its transcript has no message", "final output: only the first 16777216 bytes are kept"},
	},
	"an output that is too long midway": {
		all:  with(leaving(true), func(all *everything) { all.ran.overlong = true }),
		gaps: []string{"final output: only the first 16777216 bytes are kept"},
	},
	"lines that cannot be read": {
		all:  leaving(false, loss{evidence.GapLines, unread, errUnread}),
		gaps: []string{"transcript lines: cannot be read"},
	},
	"missing frames": {
		all: with(ended(ending{}), func(all *everything) {
			all.missing = map[string]error{evidence.GapModels: errors.New("full"), evidence.GapFrames: errors.New("cut")}
		}),
		gaps: []string{"frames: cut", "models: full"},
	},
	"a workspace that no grader can be given": {
		all:   with(ended(ending{}), func(all *everything) { all.unfit = []failure{{second(7), errors.New("no room")}} }),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: "no room",
	},
	"files that cannot be removed": {
		all:   with(ended(ending{}), func(all *everything) { all.down.strays = []failure{{second(8), sandbox.ErrLeft}} }),
		class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: sandbox.ErrLeft.Error(),
	},
	"files that cannot be removed of a trial that did not start": {
		all:   with(failing(errors.New("the disk is full")), func(all *everything) { all.down.strays = []failure{{second(8), sandbox.ErrLeft}} }),
		class: evidence.ClassInfra, reason: evidence.ReasonRunner, message: "the disk is full; " + sandbox.ErrLeft.Error(),
	},
	"no sandbox": {
		all:   failing(withReason(evidence.ReasonSandbox, errors.New("no image"))),
		class: evidence.ClassInfra, reason: evidence.ReasonSandbox, message: "no image",
	},
	"no server": {
		all:   failing(withReason(evidence.ReasonServer, errors.New("no command"))),
		class: evidence.ClassInfra, reason: evidence.ReasonServer, message: "no command",
	},
	"a server that ended": {
		all:   failing(withReason(evidence.ReasonServer, &client.Error{Server: "crm", Class: client.ErrExited})),
		class: evidence.ClassServerError, reason: evidence.ReasonServer, message: (&client.Error{Server: "crm", Class: client.ErrExited}).Error(), ofServer: "crm",
	},
	"no model": {
		all:   failing(withReason(evidence.ReasonModel, errors.New("no provider"))),
		class: evidence.ClassInfra, reason: evidence.ReasonModel, message: "no provider",
	},
	"another catalog than pinned": {
		all:   failing(withReason(evidence.ReasonPin, errors.New("not as pinned"))),
		class: evidence.ClassInfra, reason: evidence.ReasonPin, message: "not as pinned",
	},
	"no answer in the cassette": {
		all:   failing(&missError{"crm", errors.New("no entry answers it")}),
		class: evidence.ClassMiss, reason: evidence.ReasonMiss, message: "crm: no entry answers it; record the run again if the change is meant",
	},
	"no engine": {
		all:   failing(withReason(evidence.ReasonSandbox, sandbox.ErrEngineGone)),
		class: evidence.ClassInfra, reason: evidence.ReasonEngine, message: sandbox.ErrEngineGone.Error(),
	},
	"a container that somebody killed": {
		all:   failing(foreignFault("crm", sandbox.Exit{Cause: sandbox.FromOutside, Message: "killed"})),
		class: evidence.ClassInfra, reason: evidence.ReasonKilled, message: `server "crm": killed`,
	},
	"a full disk": {
		all:   failing(errors.Join(errors.New("the disk is full"), errors.New("the disk is full"))),
		class: evidence.ClassInfra, reason: evidence.ReasonRunner, message: "the disk is full",
	},
	"a full disk after a failed agent": {
		all: with(ended(ending{exit: process.Exit{Code: 7}, failed: errors.New("code 7")}), func(all *everything) {
			all.failed = failure{second(6), errors.New("the disk is full")}
		}),
		class: evidence.ClassAgentError, reason: evidence.ReasonExitCode, message: "code 7; the disk is full",
	},
}

// TestConclude concludes trials from values.
func TestConclude(t *testing.T) {
	for name, test := range concluded {
		r := conclude(test.all)
		if r.Class != test.class || r.Reason != test.reason || r.Message != test.message || r.FailedServer != test.ofServer {
			t.Errorf("%s: class %q, reason %q, message %q, server %q", name, r.Class, r.Reason, r.Message, r.FailedServer)
		}
		if diff := cmp.Diff(test.gaps, r.Gaps); diff != "" {
			t.Errorf("%s: gaps -want +got\n%s", name, diff)
		}
	}
}

// TestConcludeAll requires a case of TestConclude for every class and every reason, but for those that
// graders' verdicts give a trial for which nobody is to blame.
func TestConcludeAll(t *testing.T) {
	graded := map[string]bool{"ClassPass": true, "ReasonGraders": true, "ReasonEvidence": true}
	seen := map[string]bool{}
	for _, test := range concluded {
		seen["Class "+string(test.class)], seen["Reason "+string(test.reason)] = true, true
	}
	if !seen["Class "] {
		t.Error("no case leaves the outcome to graders")
	}
	constants := outcomeConstants(t)
	if len(constants) < len(evidence.Classes())+10 {
		t.Fatalf("only %d constants were found", len(constants))
	}
	for name, of := range constants {
		if seen[of] == graded[name] {
			t.Errorf("%s (%s): has a case: %v, comes of graders: %v", name, of, seen[of], graded[name])
		}
		delete(graded, name)
	}
	if len(graded) > 0 {
		t.Errorf("constants that do not exist: %v", graded)
	}
}

// outcomeConstants returns the constants of type Class and Reason of package evidence: by name, the type and the
// value.
func outcomeConstants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../evidence/outcome.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of := fmt.Sprint(spec.Type); of == "Class" || of == "Reason" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all[spec.Names[0].Name] = of + " " + value
		}
		return true
	})
	return all
}

// TestConcludeRecord puts what phases returned into a trial's record.
func TestConcludeRecord(t *testing.T) {
	all := ended(ending{exit: process.Exit{Code: 3}, failed: errors.New("code 3")})
	all.opened = &evidence.Guarantees{Backend: "docker", Enforced: make([]string, 1, 9), Missing: make([]string, 0, 9)}
	all.resources = map[string]evidence.Resource{sandbox.Agent: {Unseen: "gone"}}
	all.ran.stdout.text = "on stdout"
	early := conclude(all)
	if early.FinalOutput != "on stdout" || early.ExitCode == nil || *early.ExitCode != 3 || early.AgentStart != second(1) || early.AgentEnd != second(5) {
		t.Errorf("%+v", early)
	}
	if g := early.Guarantees; g.Missing == nil || len(g.Missing) != 0 {
		t.Errorf("guarantees %+v", g)
	}
	all.left = collected{final: finalOutput{text: "before\nin a file"}, last: len("before\n"), at: second(6)}
	all.down.shared = []evidence.SharedServer{{Name: "crm", Instance: 1}}
	all.plan.NotEnforced, all.o = []string{"disk"}, Options{Weak: []string{"a", "b"}, HostHooks: true, Baseline: &evidence.BaselineTrial{FinalOutput: "without"}}
	late := conclude(all)
	if late.FinalOutput != "in a file" || late.EarlierOutput != "before\n" || len(late.Shared) != 1 || late.Baseline == nil || len(late.Resources) != 1 || late.Ended != second(9) {
		t.Errorf("%+v", late)
	}
	want := []string{
		"disk had no effect", `the attack "a" gets out, which --allow-weak lets it`, `the attack "b" gets out, which --allow-weak lets it`,
		"hooks of the eval run on the host, which --allow-host-hooks lets them",
	}
	if diff := cmp.Diff(want, late.Guarantees.Missing); diff != "" || len(early.Guarantees.Missing) != 0 {
		t.Errorf("-want +got\n%s, and earlier %q", diff, early.Guarantees.Missing)
	}
	lost := ended(ending{lost: errors.New("EOF")})
	if r := conclude(lost); r.ExitCode != nil {
		t.Errorf("an exit that is not known has code %d", *r.ExitCode)
	}
}

// TestDecide decides outcomes by notes.
func TestDecide(t *testing.T) {
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
		c := decide(test.notes)
		if c.class != test.class || c.reason != test.reason || c.message != test.message || len(c.gaps) != test.gaps {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestEndingsInVain decides who is to blame if the agent did not end even when it was killed.
func TestEndingsInVain(t *testing.T) {
	for name, test := range map[string]struct {
		ending  ending
		class   evidence.Class
		reason  evidence.Reason
		message string
	}{
		"for a loss":     {ending{stops: []stop{{second(4), dependencyLost}}}, evidence.ClassAgentError, evidence.ReasonGuest, "the agent did not end when it was killed"},
		"for its time":   {ending{stops: []stop{{second(4), timeLimit}}}, evidence.ClassTimeout, evidence.ReasonTimeLimit, "the agent ran longer than 1m0s and did not end when it was killed"},
		"for its output": {ending{stops: []stop{{second(4), outputLimit}}}, evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than it may and did not end when it was killed"},
		"for its budget": {
			ending{stops: []stop{{second(4), budgetLimit}}, overspent: "too many calls"},
			evidence.ClassAgentError, evidence.ReasonBudget, "too many calls, and the agent did not end when it was killed",
		},
	} {
		r := conclude(everything{plan: scripted(), ran: agentRun{ended: second(5), ending: &test.ending}})
		if r.Class != test.class || r.Reason != test.reason || r.Message != test.message || !slices.Equal(r.Gaps, []string{"final output: the agent did not end"}) {
			t.Errorf("%s: class %q, reason %q, message %q, gaps %q", name, r.Class, r.Reason, r.Message, r.Gaps)
		}
	}
}

// TestUnexpected tells a script's surprise from other exits.
func TestUnexpected(t *testing.T) {
	e := &ending{ended: true, exit: process.Exit{Code: agents.ExitUnexpected}}
	if !e.isUnexpected(scripted()) || e.isUnexpected(&plan.Trial{}) || (&ending{ended: true}).isUnexpected(scripted()) {
		t.Error("only a script that exits with the code for it was surprised")
	}
}
