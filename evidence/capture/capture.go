// Package capture derives calls and tool catalogs from the frames recorded by the proxy,
// and lists what may be missing. It does not judge.
//
// It is a pure function of the frames. It supports both sessions that start with initialize
// and stateless requests with rounds of input. It trusts neither side: keys are
// case-sensitive, IDs are compared by type and value, and a result never changes the
// recorded request.
//
// Each call is checked against the catalog of its server at that time: whether the tool was
// listed, whether as read-only, and whether the arguments match the input schema. A server
// may list different tools to different conversations, so the list of the call's own
// conversation takes precedence over those of others. A tool is reported as unknown only if
// a complete list lacks it: not while pages are missing, after an unreadable message that
// may have been a list, or after the server announced that its list changed. Tools that are
// hidden from the agent are unknown.
//
// Frames are hostile. Their cost is limited by counts: lists by their tools (maxTools,
// maxListed), and validation of arguments by package schema. Anything beyond the limits is
// marked as unknown.
package capture

import (
	"fmt"
	"iter"

	"github.com/waza-isolate/waza/evidence"
)

// Result holds the calls, reads and catalogs of a trial.
type Result struct {
	Calls    []evidence.Call    // in the order of their first requests, numbered from 1
	Reads    []Read             // in the order of their first requests
	Requests []ServerRequest    // in the order of their frames
	Catalogs []evidence.Catalog // of the servers that listed tools, sorted by name
	Gaps     []Gap              // parts of the traffic that could not be read
	// Named maps numbers of calls to the tool use IDs that clients put into the requests.
	// They are claims of the client.
	Named map[int]string
}

// Gap is a part of the traffic that may hide a call: a message of the agent that could not be parsed, or lost
// bytes. It leaves questions about the server's calls undecided.
type Gap struct {
	Server string // empty if the gap may concern any server
	Frame  int64  // 0 if there is none
	Why    string
	// OfAgent means that the agent sent the unreadable message.
	OfAgent bool
}

func (g Gap) String() string {
	where := "frames"
	if g.Frame > 0 {
		where = fmt.Sprintf("frame %d", g.Frame)
	}
	if g.Server != "" {
		where += " of " + g.Server
	}
	return where + ": " + g.Why
}

// Kinds of notes on calls.
const (
	NoteDuplicateResponse = "duplicate_response" // another response to a request
	NoteLateResponse      = "late_response"      // responds to a request that was canceled, abandoned or timed out
	NoteIDReused          = "id_reused"          // two pending requests with the same id
	NoteDuplicateKey      = "duplicate_key"      // the last value counts
	NoteMalformed         = "malformed"          // a field of the wrong type, or an answer that is not as specified
	NoteExpired           = "session_expired"    // the session had ended; the client made the call in another
	NoteInvalidResult     = "invalid_result"     // isError is not a boolean, so this is not a valid result
	NoteRoundUnknown      = "round_unknown"      // a retry of a call that asked for no input
	NoteRoundAbandoned    = "round_abandoned"    // input was asked for and never given
	NoteUnchecked         = "unchecked"          // why it is unknown whether arguments match their schema
)

// Calls reads the agent's frames, in order, to the end. It ignores the calls of hooks and of the runner, and
// the lists that servers sent them, which the agent did not see. If frames yields an error, Calls returns the
// error with the result of the frames before it.
func Calls(frames iter.Seq2[evidence.Frame, error]) (Result, error) {
	c := newCollector()
	var last int64
	for frame, err := range frames {
		if err != nil {
			return c.finish(), err
		}
		if frame.Seq != last+1 {
			c.gap(evidence.Frame{}, fmt.Sprintf("number %d follows %d", frame.Seq, last))
			c.blind = frame.Seq - 1
		}
		last = frame.Seq
		if frame.OfAgent() {
			c.frame(frame)
		}
	}
	return c.finish(), nil
}
