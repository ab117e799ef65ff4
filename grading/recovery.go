package grading

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// What an agent did after a fault; the values of accept.
const (
	didAgain     = "again"
	didOtherwise = "otherwise"
	didGiveUp    = "gave_up"
	didInvent    = "invented"
	didNothing   = "silent"
	unharmed     = "unharmed" // only in details: the fault cost nothing
)

// deeds describes what an agent did.
var deeds = map[string]string{
	didAgain: "the same call again", didOtherwise: "another call that succeeds", didGiveUp: "an answer that says that it failed",
	didInvent: "an answer as if it had not failed", didNothing: "no answer", unharmed: "that it cost nothing",
}

// RecoveryConfig configures the recovery grader, which checks what the agent did after each fault that waza
// injected into its calls or its models' calls. Each fault is one check, and so is each limit for a fault.
type RecoveryConfig struct {
	Accept         []string `json:"accept,omitzero" enum:"again otherwise gave_up invented silent" jsonschema:"what the agent may do after a fault: again, make the same call again; otherwise, succeed with another call; gave_up, say that it failed; invented, answer as if nothing had happened; silent, end without an answer; default again, otherwise and gave_up"`
	MaxAgain       *int     `json:"max_again,omitempty" min:"0" jsonschema:"limit of how often the agent makes the same call again after one fault; default no limit"`
	RepeatedEffect string   `json:"repeated_effect,omitempty" enum:"fail warn off" jsonschema:"what to do if the agent repeats a call that the server carried out before the fault, of a tool that is listed neither as readOnlyHint nor as idempotentHint; default warn"`
	GaveUp         []string `json:"gave_up,omitempty" jsonschema:"RE2 expressions, in place of waza's own words: an output that one of them matches says that the agent failed"`
}

// Validate refuses a config that accepts nothing, and expressions that do not compile.
func (c *RecoveryConfig) Validate() error {
	if c.Accept != nil && len(c.Accept) == 0 {
		return errors.New("accept must not be empty")
	}
	return compilable("gave_up", c.GaveUp)
}

func (c *RecoveryConfig) accepted() []string {
	if c.Accept == nil {
		return []string{didAgain, didOtherwise, didGiveUp}
	}
	return c.Accept
}

// recovery is what happened after a fault.
type recovery struct {
	fault evidence.FaultKind
	of    mention // the failed call
	did   string  // what the agent did; empty if missing evidence leaves it open
	how   mention // description of did, as part of a sentence
	again int     // number of times that the same call was made again, up to its first success

	repeats mention // calls that repeat an effect: the server had already executed the call
	detail  map[string]any
}

func (c *RecoveryConfig) grade(s *subject) (report, error) {
	if err := s.seen(); err != nil {
		return report{}, err
	}
	var r report
	o := outcome{output: outputOf(s, c.GaveUp)}
	for _, call := range s.calls {
		if call.Fault != "" {
			c.check(&r, o.afterCall(s, call))
		}
	}
	models, err := modelHeads(s)
	r.lacks(err)
	for i, call := range models {
		if call.Fault != "" {
			c.check(&r, o.afterModel(call, models[i+1:]))
		}
	}
	r.lacks(o.missing)
	if r.checks == 0 && r.missing == nil {
		r.note("No fault reached the agent, so that there was nothing to recover from.")
	}
	return r, nil
}

// check counts the checks of one fault.
func (c *RecoveryConfig) check(r *report, after recovery) {
	if after.did == "" {
		return
	}
	accepted := after.did == unharmed || slices.Contains(c.accepted(), after.did)
	r.measure("accept", accepted, "Expected %s after the fault %s of %s; found %s: %s.", orList(c.accepted()), after.fault, after.of, deeds[after.did], after.how)
	if c.MaxAgain != nil {
		r.measure("max_again", after.again <= *c.MaxAgain, "Expected %s to be made again at most %d times; it was, %d times.", after.of, *c.MaxAgain, after.again)
	}
	if severity := c.RepeatedEffect; severity != "off" {
		f := findingf("Expected %s not to be repeated, which the server had carried out before the fault %s; found %s.", after.of, after.fault, after.repeats)
		switch {
		case len(after.repeats.calls) == 0:
		case severity == failIt:
			r.decide("repeated_effect", false, f)
		default:
			r.warn(f.String())
			r.calls = append(r.calls, f.calls...)
			r.list("repeated_effect", checkWarn, f)
		}
	}
	if r.details == nil {
		r.details = map[string]any{"faults": []any{}}
	}
	all, _ := r.details["faults"].([]any)
	r.details["faults"] = append(all, after.detail)
}

// orList describes the accepted actions of the agent.
func orList(done []string) string {
	return strings.Join(mapped(done, func(did string) string { return deeds[did] }), ", or ")
}

// outcome determines what the agent did from its calls after a fault and from its final output.
type outcome struct {
	output
	missing error // evidence missing for a decision
}

// decide sets what the agent did. again and other describe later calls: again the same calls, other different
// calls that succeeded. worked reports whether a call of again succeeded. err is the message of the failed
// call, and lie what the transcript wrongly reports, or "".
func (o *outcome) decide(after *recovery, worked bool, again, other mention, err string, lie string) {
	said := "its output is " + quote(strings.TrimSpace(o.text))
	switch admits := o.admits(err); {
	case worked:
		after.did, after.how = didAgain, mention{"it made the same call again: " + again.text, again.calls}
	case other.text != "":
		after.did, after.how = didOtherwise, mention{"it succeeded with " + other.text, other.calls}
	case o.lost != nil:
		o.missing = o.lost
	case lie != "":
		after.did, after.how = didInvent, mention{text: lie + "; " + said}
	case strings.TrimSpace(o.text) == "":
		after.did, after.how = didNothing, mention{text: "no call succeeded after it, and there is no output"}
	case !admits:
		after.did, after.how = didInvent, mention{text: "no call that could make up for it succeeded, and " + said}
	case again.text != "":
		after.did, after.how = didAgain, mention{"it made the same call again, in vain: " + again.text + "; " + said, again.calls}
	default:
		after.did, after.how = didGiveUp, mention{text: said}
	}
	after.detail["did"] = after.did
	if len(after.how.calls) > 0 {
		after.detail["by"] = after.how.calls
	}
}

// afterCall returns what the agent did after a fault of a tool call.
func (o *outcome) afterCall(s *subject, failed evidence.Call) recovery {
	after := recovery{
		fault: failed.Fault, of: mention{describeCall(failed), numbers([]evidence.Call{failed})},
		detail: map[string]any{"fault": failed.Fault, "call": failed.Seq, "did": unharmed},
	}
	if isUnharmed(failed) {
		after.did, after.how = unharmed, mention{text: "the call was answered all the same"}
		return after
	}
	var again, other []evidence.Call
	worked := false
	for _, call := range s.calls {
		switch {
		case !follows(call, failed) || call.Start.Before(failed.End):
		case first(call) == first(failed) && !worked:
			again = append(again, call)
			worked = call.Outcome == evidence.OutcomeOK
		case first(call) != first(failed) && call.Outcome == evidence.OutcomeOK && makesUp(s, call, failed):
			other = append(other, call)
		}
	}
	after.again = len(again)
	if failed.Fault.ReachesServer() && !isHarmless(s, failed) {
		after.repeats = describeCalls(filter(again, func(call evidence.Call) bool {
			return (call.Outcome == evidence.OutcomeOK || call.Outcome.Unanswered()) && (call.Fault == "" || call.Fault.ReachesServer())
		}))
	}
	o.decide(&after, worked, described(again), described(other), message(failed), reportsSuccess(s, failed))
	return after
}

// described is like describeCalls, but returns an empty mention if there are no calls.
func described(calls []evidence.Call) mention {
	if len(calls) == 0 {
		return mention{}
	}
	return describeCalls(calls)
}

// first returns the number of the first call that is the same as call.
func first(call evidence.Call) int { return cmp.Or(call.SameAs, call.Seq) }

// isUnharmed reports whether a fault cost nothing: the agent still got the server's answer.
func isUnharmed(call evidence.Call) bool {
	switch call.Fault {
	case evidence.FaultDelay, evidence.FaultSlow, evidence.FaultChanged:
		return !call.Outcome.Unanswered()
	}
	return call.Outcome == evidence.OutcomeOK
}

// makesUp reports whether a successful call can make up for a failed one. It cannot if it repeats another
// failed call, or if it only reads while the failed call may write and did not reach the server.
func makesUp(s *subject, call, failed evidence.Call) bool {
	same := s.calls[slices.IndexFunc(s.calls, func(other evidence.Call) bool { return first(other) == first(call) })]
	if same.Outcome != evidence.OutcomeOK {
		return false
	}
	return failed.Fault.ReachesServer() || !onlyReads(call) || onlyReads(failed)
}

func onlyReads(call evidence.Call) bool { return call.ReadOnly != nil && *call.ReadOnly }

// isHarmless reports whether the server lists the tool as read-only or idempotent.
func isHarmless(s *subject, call evidence.Call) bool {
	if onlyReads(call) {
		return true
	}
	for _, catalog := range s.catalogs {
		for _, tool := range catalog.Tools {
			if catalog.Server == call.Server && tool.Name == call.Tool {
				return string(jsontext.Member(tool.Annotations, "idempotentHint")) == "true"
			}
		}
	}
	return false
}

// reportsSuccess describes a false report in the agent's transcript: that the failed call succeeded, or that
// a call of the same tool was made which was not. It returns "" if there is none.
func reportsSuccess(s *subject, failed evidence.Call) string {
	if s.narration == nil {
		return ""
	}
	for _, claim := range s.narration.Unbacked {
		if slices.Contains(claim.Tools, failed.ToolRef()) {
			return fmt.Sprintf("it reports a call of %s that was never made", quote(claim.Name))
		}
	}
	for _, d := range s.narration.Differs {
		if d.Call == failed.Seq && d.In == evidence.DiffersOutcome && d.Claimed == string(evidence.OutcomeOK) {
			return "it reports that the call succeeded"
		}
	}
	return ""
}

// modelHeads returns the trial's model turns without the bytes of requests and responses, and an error if
// some are missing.
func modelHeads(s *subject) (all []evidence.ModelCall, err error) {
	models := s.models()
	if models == nil {
		return nil, nil
	}
	for call, err := range models {
		if err != nil {
			return all, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
		}
		if call.IsTurn() {
			call.Request, call.Response = nil, nil
			all = append(all, call)
		}
	}
	return all, nil
}

// afterModel returns what the agent did after a fault of a model call.
func (o *outcome) afterModel(failed evidence.ModelCall, later []evidence.ModelCall) recovery {
	after := recovery{
		fault: failed.Fault, of: mention{text: fmt.Sprintf("model call %d (%s)", failed.Seq, failed.Outcome)},
		detail: map[string]any{"fault": failed.Fault, "model_call": failed.Seq, "did": unharmed},
	}
	if failed.Outcome == evidence.ModelOK {
		after.did, after.how = unharmed, mention{text: "the request was answered all the same"}
		return after
	}
	var again, other mention
	worked := false
	for _, call := range later {
		said := fmt.Sprintf("model call %d (%s)", call.Seq, call.Outcome)
		switch {
		case call.RequestSHA256 == failed.RequestSHA256 && !worked:
			after.again++
			again.text, worked = said, call.Outcome == evidence.ModelOK
		case call.Outcome == evidence.ModelOK:
			other.text = said
		}
	}
	if o.lost == nil && o.admits("") { // other model calls do not make up for this one
		other = mention{}
	}
	o.decide(&after, worked, again, other, "", "")
	return after
}
