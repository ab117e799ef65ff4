package trial

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// everything is what the phases of a trial returned. Fields of phases that were not reached are zero.
type everything struct {
	plan         *plan.Trial
	o            Options
	began, ended time.Time

	opened    *evidence.Guarantees // of the sandbox; nil if it did not open
	ran       agentRun
	left      collected
	complaint complaint                    // read back from the log
	resources map[string]evidence.Resource // by container
	unfit     []failure                    // errors of copying what the agent left to graders' programs

	failed  failure // the failure that ended the trial and that the agent did not cause
	down    remains
	missing map[string]error // why frames are missing, by kind of gap
}

// failure is something that went wrong, and when it became known.
type failure struct {
	at  time.Time
	err error // nil if nothing went wrong
}

// conclude makes the record of a trial. It decides the outcome from what is known so far, and may
// be called again later.
func conclude(all everything) evidence.Trial {
	t := newRecord(all.plan, all.began)
	t.Ended, t.Baseline, t.Shared, t.Resources = all.ended, all.o.Baseline, all.down.shared, all.resources
	if all.opened != nil {
		t.Guarantees = guaranteesOf(*all.opened, all.plan, all.o)
	}
	ran := all.ran
	t.AgentStart, t.AgentEnd, t.BetweenTurns = ran.started, ran.ended, ran.turns.between
	t.Checkpoints, t.Responder = ran.turns.checkpoints, ran.turns.responder
	t.Commands, t.Miscalled = ran.commands, ran.miscalled
	if e := ran.ending; e != nil && e.ended && e.lost == nil {
		t.ExitCode, t.Signal = new(e.exit.Code), e.exit.Signal
	}
	output, last := all.output()
	t.EarlierOutput, t.FinalOutput = output.text[:last], output.text[last:]
	c := decide(all.notes())
	t.Class, t.Reason, t.Message, t.Gaps, t.FailedServer = c.class, c.reason, c.message, c.gaps, c.server
	return t
}

// output returns the agent's output in all turns, and the offset at which the last turn begins.
func (all everything) output() (said finalOutput, last int) {
	if all.left.at.IsZero() {
		return all.ran.stdout, 0 // nothing else was collected
	}
	return all.left.final, all.left.last
}

// notes returns the notes on a trial, in the order in which they became known.
func (all everything) notes() []note {
	var notes []note
	add := func(at time.Time, more ...note) {
		for _, n := range more {
			if n.at.IsZero() {
				n.at = at
			}
			notes = append(notes, n)
		}
	}
	ran := all.ran
	if silence := ran.turns.silence; silence.err != nil {
		add(silence.at, note{class: evidence.ClassError, reason: evidence.ReasonResponder, message: silence.err.Error()})
	}
	if ran.ending != nil {
		add(ran.ended, ran.ending.notes(all.plan)...)
	}
	nobody := decide(inOrder(notes)).class == ""
	if ran.overlong {
		add(ran.ended, loss{evidence.GapFinalOutput, overlong, nil}.notes(all.left.midway)...)
	}
	for _, why := range ran.refused {
		add(ran.ended, note{message: why})
	}
	switch c := all.complaint; {
	case c.fault != "" && nobody:
		add(ran.ended, note{class: evidence.ClassFail, reason: evidence.ReasonFault, message: fmt.Sprintf("%s; waza made the fault %s of this call", c.message, c.fault)})
	case c.server != "" && nobody:
		add(ran.ended, note{class: evidence.ClassServerError, reason: evidence.ReasonServer, message: c.message, server: c.server})
	case c.message != "" && nobody: // a script tests servers, not an agent
		add(ran.ended, note{class: evidence.ClassFail, reason: evidence.ReasonServer, message: c.message})
	case ran.unmet != "":
		add(ran.ended, note{class: evidence.ClassFail, reason: evidence.ReasonServer, message: ran.unmet})
	}
	for _, l := range all.left.losses {
		add(all.left.at, l.notes(all.left.midway)...)
	}
	for _, f := range slices.Concat(all.unfit, all.down.strays) {
		add(f.at, note{class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: f.err.Error()})
	}
	if all.failed.err != nil {
		add(all.failed.at, ourFailure(all.failed.err))
	}
	notes = inOrder(notes)
	for _, kind := range slices.Sorted(maps.Keys(all.missing)) {
		notes = append(notes, gapNote(kind, all.missing[kind].Error()))
	}
	return notes
}

func inOrder(notes []note) []note {
	return slices.SortedStableFunc(slices.Values(notes), func(a, b note) int { return a.at.Compare(b.at) })
}

// note is something about a trial that affects its outcome or message: a blame if class is set, a
// gap if gap is set, else a remark.
type note struct {
	at      time.Time // when it became known
	class   evidence.Class
	reason  evidence.Reason
	message string
	gap     string // what is missing, and why
	server  string // the server that failed, for server_error

	unsure bool // a blame that a later failure of ours replaces
	ours   bool // a failure that the agent did not cause
	weak   bool // a blame that is dropped if there already is one
}

// conclusion is the outcome of a trial before it is graded. The class is empty if nobody is blamed.
type conclusion struct {
	class   evidence.Class
	reason  evidence.Reason
	message string
	gaps    []string
	server  string // the server that failed, for server_error
}

// decide decides the outcome of a trial from its notes, in the order in which they became known.
// The first blame determines the class and the reason, unless it is unsure and a failure of ours
// follows. Later blames and remarks append their messages.
func decide(notes []note) (c conclusion) {
	unsure := false
	for _, n := range notes {
		switch {
		case n.gap != "":
			c.gaps = append(c.gaps, n.gap)
			continue
		case n.weak && c.class != "":
			continue
		case n.class != "" && (c.class == "" || unsure && n.ours):
			c.class, c.reason, c.message, c.server, unsure = n.class, n.reason, "", n.server, n.unsure
		}
		if c.message != "" {
			c.message += "; "
		}
		c.message += n.message
	}
	return c
}

// ourFailure returns the note of a failure that the agent did not cause: server_error if a server exited by
// itself before it answered, miss if the cassette had no answer, else infra.
func ourFailure(err error) note {
	n := note{class: evidence.ClassInfra, reason: reasonOf(err), message: withoutRepeats(err), ours: true}
	if missed := (*missError)(nil); errors.As(err, &missed) {
		n.class, n.reason = evidence.ClassMiss, evidence.ReasonMiss
	}
	if probe := (*client.Error)(nil); n.reason == evidence.ReasonServer && errors.Is(err, client.ErrExited) && errors.As(err, &probe) {
		n.class, n.server = evidence.ClassServerError, probe.Server
	}
	return n
}

// ending is how an agent ended.
type ending struct {
	stops     []stop          // reasons to stop it
	ended     bool            // it has exited
	exit      process.Exit    // if it has
	lost      error           // why its exit is not known
	failed    error           // describes an exit with a code other than 0
	container sandbox.Exit    // of its container
	used      *evidence.Usage // of its container; nil if not known
	floods    []string        // limits of outputs that were exceeded
	overspent string          // limits of calls, messages and models that it exceeded
}

// stopped returns the first reason to stop the agent, or a zero one.
func (e ending) stopped() stop {
	if len(e.stops) == 0 {
		return stop{}
	}
	return slices.MinFunc(e.stops, func(a, b stop) int { return a.at.Compare(b.at) })
}

// since returns when a reason to stop the agent became known, or the zero time if the agent was not
// stopped for it.
func (e ending) since(cause stopCause) time.Time {
	i := slices.IndexFunc(e.stops, func(s stop) bool { return s.cause == cause })
	if i < 0 {
		return time.Time{}
	}
	return e.stops[i].at
}

// isUnexpected reports whether the agent is a script that ended because of a server's unexpected
// answer.
func (e ending) isUnexpected(t *plan.Trial) bool {
	return e.ended && e.lost == nil && e.container.Cause == "" && e.exit == process.Exit{Code: agents.ExitUnexpected} &&
		t.Agent.Executor == evidence.ExecutorScript
}

// notes returns the blames for how the agent ended. They always blame the agent, even for a broken
// container, which it could break to avoid being graded. A limit that was reached takes precedence
// over the exit status.
func (e ending) notes(t *plan.Trial) (all []note) {
	stopped := e.stopped().cause
	blame := func(cause stopCause, class evidence.Class, reason evidence.Reason, message string) {
		all = append(all, note{at: e.since(cause), class: class, reason: reason, message: message})
	}
	if !e.ended {
		all = append(all, gapNote(evidence.GapFinalOutput, "the agent did not end"))
		const left = "and did not end when it was killed"
		switch stopped {
		case timeLimit, noFirstEvent:
			reason, message := stopped.time(t)
			blame(stopped, evidence.ClassTimeout, reason, message+" "+left)
		case outputLimit:
			blame(stopped, evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than it may "+left)
		case budgetLimit:
			blame(stopped, evidence.ClassAgentError, evidence.ReasonBudget, e.overspent+", and the agent did not end when it was killed")
		default:
			blame(stopped, evidence.ClassAgentError, evidence.ReasonGuest, "the agent did not end when it was killed")
		}
		return all
	}
	if stopped == timeLimit || stopped == noFirstEvent {
		reason, message := stopped.time(t)
		blame(stopped, evidence.ClassTimeout, reason, message)
	}
	// Without this, an agent killed for its output or memory would be blamed for a signal.
	for _, flood := range e.floods {
		blame(outputLimit, evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than "+flood)
	}
	if e.used != nil {
		for _, b := range e.used.Breaches() {
			blame(byItself, evidence.ClassAgentError, evidence.Reason(b.Kind), "the agent's container "+b.What)
		}
	}
	if e.overspent != "" {
		blame(budgetLimit, evidence.ClassAgentError, evidence.ReasonBudget, e.overspent)
	}
	if own := e.ofExit(t); own.class != "" {
		all = append(all, own)
	}
	return all
}

// ofExit returns the blame for an exit, which only counts if there is no other.
func (e ending) ofExit(t *plan.Trial) note {
	n := note{class: evidence.ClassAgentError, weak: true}
	switch {
	case e.lost != nil || e.container.Cause != "":
		why := e.container.Message
		if e.container.Cause == "" {
			why = e.lost.Error()
		}
		n.reason, n.message = evidence.ReasonGuest, "the agent broke its container's guest: "+why
		if e.container.Cause == sandbox.ByBreach {
			n.reason = evidence.ReasonMux
		}
	case e.exit.Signal != "":
		n.reason, n.message = evidence.ReasonSignal, "the agent was ended by "+e.exit.Signal
	case e.exit.Code != 0 && !e.isUnexpected(t):
		n.reason, n.message = evidence.ReasonExitCode, e.failed.Error()
	default:
		return note{}
	}
	return n
}

// time describes which time limit of an agent was reached.
func (c stopCause) time(t *plan.Trial) (evidence.Reason, string) {
	if c == noFirstEvent {
		return evidence.ReasonNoEvent, fmt.Sprintf("the agent said nothing, asked no model and called no tool within %s", t.FirstEvent)
	}
	return evidence.ReasonTimeLimit, fmt.Sprintf("the agent ran longer than %s", t.Timeout)
}

func gapNote(what, why string) note { return note{gap: what + ": " + why} }

// notes returns the gap of a loss, and the blame if the agent caused it. Graders do not judge a
// truncated final output. Midway, the agent is not blamed for its output, since it can still fix it
// in later turns.
func (l loss) notes(midway bool) (all []note) {
	blame := func(class evidence.Class, format string, args ...any) note {
		return note{class: class, reason: evidence.ReasonOutput, message: fmt.Sprintf(format, args...)}
	}
	output := func(message string, err error) {
		if all = append(all, gapNote(l.what, message)); !midway {
			all = append(all, blame(evidence.ClassAgentError, "%v", err))
		}
	}
	switch l.how {
	case shut:
		return append(all, blame(evidence.ClassFail, "%v", l.err))
	case partial:
		return append(all, blame(evidence.ClassAgentError, "%v", l.err))
	case overlong:
		output(fmt.Sprintf("only the first %d bytes are kept", maxFinal), fmt.Errorf("the agent's final output is larger than %d bytes", maxFinal))
		return all
	case absent:
		output(l.err.Error(), fmt.Errorf("the agent left no final output: %w", l.err))
		return all
	}
	all = append(all, gapNote(l.what, l.err.Error()))
	switch {
	case l.how == unread || !defence.BlamedLosses:
	case errors.Is(l.err, sandbox.ErrUnreadable) && l.what == evidence.GapWorkspace:
		all = append(all, blame(evidence.ClassFail, "the agent removed its workspace, or put something else in its place"))
	case errors.Is(l.err, errTooLarge):
		all = append(all, blame(evidence.ClassAgentError, "the agent's %s, holes filled in, %v", l.what, errTooLarge))
	default:
		n := blame(evidence.ClassAgentError, "the agent's %s cannot be collected: %v", l.what, l.err)
		n.unsure = true
		all = append(all, n)
	}
	return all
}

// newRecord returns a record with the planned data of a trial.
func newRecord(t *plan.Trial, started time.Time) evidence.Trial {
	servers := make([]evidence.ServerRecord, 0, len(t.Servers))
	for _, s := range t.Servers {
		servers = append(servers, evidence.ServerRecord{Name: s.Name, Transport: s.Transport, Image: s.Image, Mocked: s.Mock != nil && !s.Mock.IsPlayed(), Played: s.Mock.IsPlayed()})
	}
	return evidence.Trial{
		Run: t.Run, Task: t.Task, TaskName: t.TaskName, Number: t.Number, Attempt: max(t.Attempt, 1),
		Prompt: t.Agent.Prompt, Executor: t.Agent.Executor, Servers: servers, Graders: t.Graders, Judge: t.Judge, Attack: t.Attack, Canaries: t.Canaries,
		Watched: watchedWays(t), Plan: t.JSON(), Started: started,
	}
}

// guaranteesOf returns the guarantees of a sandbox for a trial, with everything that weakens them:
// settings without effect, shared servers, egress, hooks on the host and allowed attacks.
func guaranteesOf(g evidence.Guarantees, t *plan.Trial, o Options) *evidence.Guarantees {
	g.Enforced, g.Missing = append([]string{}, g.Enforced...), append([]string{}, g.Missing...)
	miss := func(format string, args ...any) { g.Missing = append(g.Missing, fmt.Sprintf(format, args...)) }
	if t.Models != nil && !t.Isolated() {
		miss("any program of this machine could ask the agent's models on loopback, with the runner's keys")
	}
	for _, name := range t.NotEnforced {
		miss("%s had no effect", name)
	}
	for _, attack := range o.Weak {
		miss("the attack %q gets out, which --allow-weak lets it", attack)
	}
	if t.Hooks.OnHost() || o.HostHooks {
		miss("hooks of the eval run on the host, which --allow-host-hooks lets them")
	}
	if t.Models != nil && t.Isolated() {
		g.Enforced = append(g.Enforced, "models are asked by the runner, which alone has their keys")
	}
	for _, container := range t.Outgoing() {
		miss("%s may reach %s: what it sends there leaves the trial", container.Who, describeEgress(container.Allowed))
	}
	for _, server := range t.Servers {
		if server.Shared {
			miss("server %q lives for the whole run: what one trial leaves in it another may find", server.Name)
		}
	}
	return &g
}
