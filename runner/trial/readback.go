package trial

import (
	"cmp"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// complaint is what a script reported about an unexpected answer.
type complaint struct {
	message string             // empty if the script ended for another reason
	server  string             // server whose process ended during the call, or ""
	fault   evidence.FaultKind // fault that waza injected into the call, or ""
}

// readBack reads from the log what affects the outcome: why a script ended after an unexpected
// answer, and whether servers listed to the agent what their pins say. If they did not and a pin is
// strict, that is an error.
func readBack(log observer, all everything, calls func() (capture.Result, error)) (c complaint, err error) {
	if all.ran.ending.isUnexpected(all.plan) {
		if c, err = complaintOf(evidence.Dir(log.Dir()), all.ran.drained, calls); err != nil {
			return c, err
		}
	}
	return c, compareListed(all.plan, log.Recorder, calls)
}

// complaintOf returns a script's complaint, based on its stderr and on the events until a time.
func complaintOf(dir evidence.Dir, until time.Time, calls func() (capture.Result, error)) (c complaint, err error) {
	captured, err := calls()
	if err != nil {
		return c, err
	}
	events, err := dir.Events()
	if err != nil {
		return c, err
	}
	events = slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Time.After(until) })
	c.message = cmp.Or(dir.LastStderrLine(), "a server did not answer as the script expects")
	last := lastOf(captured.Calls)
	if c.fault = last.Fault; c.fault == "" && slices.ContainsFunc(events, endsDuring(last)) {
		c.server = last.Server
	}
	return c, nil
}

// lastOf returns the last call, or the zero Call.
func lastOf(calls []evidence.Call) (last evidence.Call) {
	if n := len(calls); n > 0 {
		last = calls[n-1]
	}
	return last
}

// endsDuring reports whether an event is the exit of the process that a call was made to, and the
// reason why the call has no answer.
func endsDuring(call evidence.Call) func(evidence.Event) bool {
	return func(e evidence.Event) bool {
		conn, _ := e.Data["conn"].(string)
		return call.Outcome == evidence.OutcomeTransportError && e.Kind == "server_exit" && e.Where == call.Server &&
			e.Data["asked"] != true && (conn == "" || conn == call.Conn)
	}
}
