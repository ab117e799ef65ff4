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
	Reads    []Read             // likewise
	Requests []ServerRequest    // in the order of their frames
	Catalogs []evidence.Catalog // of the servers that listed tools, sorted by name
	Gaps     []Gap              // what could not be seen
	Notes    []Note             // oddities that belong to no call
	// Named maps numbers of calls to the tool use IDs that clients put into the requests.
	// They are claims of the client.
	Named map[int]string
}

// Gap is a part of the traffic in which a call may lie: a message of the agent that could not be
// understood, or bytes that were lost. Questions about the server's calls then have no certain
// answer.
type Gap struct {
	Server string // empty if it may be any
	Frame  int64  // 0 if there is none
	Why    string
	// OfAgent means that the agent sent what cannot be read.
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

// Kinds of notes.
const (
	NoteOrphanResponse    = "orphan_response"    // answers no request on record
	NoteDuplicateResponse = "duplicate_response" // answers a request once more
	NoteLateResponse      = "late_response"      // responds to a request that was canceled, abandoned or timed out
	NoteCallWithoutID     = "call_without_id"    // a tools/call notification
	NoteIDReused          = "id_reused"          // two pending requests with the same id
	NoteDuplicateKey      = "duplicate_key"      // the last value counts
	NoteMalformed         = "malformed"          // a field of the wrong type, or an answer that is not as specified
	NoteJunk              = "junk"               // a server sent what is no message
	NoteRedacted          = "redacted"           // a secret in the envelope of a server's message was redacted
	NoteExpired           = "session_expired"    // the session had ended; the client made the call in another
	NoteInvalidResult     = "invalid_result"     // isError is not a boolean, so this is not a valid result
	NoteRoundUnknown      = "round_unknown"      // a retry of a call that asked for no input
	NoteRoundAbandoned    = "round_abandoned"    // input was asked for and never given
	NoteUnchecked         = "unchecked"          // why it is not known whether arguments fit their schema
	NoteDuplicateTool     = "duplicate_tool"     // two tools of one name in a list; the first counts
	NoteTooManyTools      = "too_many_tools"     // the rest of a list was omitted
)

// Note is an oddity that belongs to no call.
type Note struct {
	Server string
	Frame  int64
	Kind   string
}

// Calls reads the agent's frames, in order, to the end: the calls of hooks and of the runner are not
// the agent's, and what servers listed to them it has not seen. Where frames yields an error, Calls returns it with
// the result of the frames before it.
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
