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
	class := evidence.ClassFail
	if n := len(captured.Calls); n > 0 && slices.ContainsFunc(events, endsDuring(captured.Calls[n-1])) {
		class, s.record.FailedServer = evidence.ClassServerError, captured.Calls[n-1].Server
	}
	s.blame(class, evidence.ReasonServer, cmp.Or(dir.LastStderrLine(), "a server did not answer as the script expects"))
	return nil
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
