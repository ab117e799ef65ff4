package trial

import (
	"cmp"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// judgeScript judges a script that ended because a server did not answer as expected: the server is
// what a script tests, so the trial fails with what the script said of the answer. If the server's
// process ended during the call, the outcome is server_error. The agent's sessions must have ended.
func judgeScript(s *stage) error {
	dir := evidence.Dir(s.rec.Dir())
	captured, err := s.captured()
	if err != nil {
		return err
	}
	events, err := dir.Events()
	if err != nil {
		return err
	}
	n := note{class: evidence.ClassFail, reason: evidence.ReasonServer, message: cmp.Or(dir.LastStderrLine(), "a server did not answer as the script expects")}
	if last := lastOf(captured.Calls); slices.ContainsFunc(events, endsDuring(last)) {
		n.class, n.server = evidence.ClassServerError, last.Server
	}
	s.add(n)
	return nil
}

// lastOf returns the last call, or a zero one.
func lastOf(calls []evidence.Call) (last evidence.Call) {
	if n := len(calls); n > 0 {
		last = calls[n-1]
	}
	return last
}

// endsDuring reports whether an event is the end of the process to which a call was made, and the reason
// why it has no answer.
func endsDuring(call evidence.Call) func(evidence.Event) bool {
	return func(e evidence.Event) bool {
		conn, _ := e.Data["conn"].(string)
		return call.Outcome == evidence.OutcomeTransportError && e.Kind == "server_exit" && e.Where == call.Server &&
			e.Data["asked"] != true && (conn == "" || conn == call.Conn)
	}
}
