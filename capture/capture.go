// Package capture reads what crossed the proxy: it turns frames into calls and catalogs of
// tools, and lists what could not be seen.
//
// It is pure: frames in, values out. It understands both eras of the protocol,
// sessions opened by initialize and stateless requests with their rounds of
// input, and trusts neither side: keys count in their exact case, ids by their
// type and value, and a result never changes the request on record.
//
// Of each call it says what the catalog said when it was made: whether its server had
// listed the tool, as reading only or not, and whether the arguments fit the tool's
// input schema. A server may list other tools to another conversation, so what counts
// is what the call's own conversation was told, then what any other was. That a tool is
// not known is said only where a whole list lacks it: not while pages are missing, and
// not after something that may have been a list and could not be read, or after the
// server said that its list has changed. Tools that are kept from the agent are not
// known to it.
//
// Frames are hostile. What they can make it do is bounded by counting: lists by their
// tools (maxTools, maxListed), schemas by their parts (maxPlaces), and checks by their
// steps (maxSteps). What is beyond says so and stays unknown.
//
// It judges nothing.
package capture

import (
	"fmt"
	"iter"

	"github.com/waza-isolate/waza/evidence"
)

// Result is what a trial's frames add up to.
type Result struct {
	Calls    []evidence.Call   // in the order of their first requests, numbered from 1
	Reads    []Read            // likewise
	Catalog  map[string][]Tool // by server: every tool it listed, also those kept from the agent, in the order first seen
	Complete map[string]bool   // by server: whether a list was seen with all of its pages
	Changes  []evidence.Change // of the tools that were listed to the agent, in order
	Gaps     []Gap             // what could not be seen
	Notes    []Note            // oddities that belong to no call
	// Named are ids of tool uses that clients put into their requests, by the number of
	// the call. They are the client's word.
	Named map[int]string
}

// Tool is a tool as its server last described it.
type Tool = evidence.Tool

// Gap is a part of the traffic that could not be understood. A question about
// the server's calls has no sure answer.
type Gap struct {
	Server string // empty where it may be any
	Frame  int64  // 0 where there is none
	Why    string
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
	NoteLateResponse      = "late_response"      // answers what was cancelled, abandoned or timed out
	NoteCallWithoutID     = "call_without_id"    // a tools/call that asks for no answer
	NoteIDReused          = "id_reused"          // two requests under one id at once
	NoteDuplicateKey      = "duplicate_key"      // the last value counts
	NoteMalformed         = "malformed"          // a field of the wrong type
	NoteInvalidResult     = "invalid_result"     // isError is there and no boolean, so it is no result of a call
	NoteRoundUnknown      = "round_unknown"      // a retry of a call that asked for no input
	NoteRoundAbandoned    = "round_abandoned"    // input was asked for and never given
	NoteUnchecked         = "unchecked"          // why it is not known whether arguments fit their schema
	NoteDuplicateTool     = "duplicate_tool"     // two tools of one name in a list; the first counts
	NoteTooManyTools      = "too_many_tools"     // the rest of a list was left out
)

// Note is an oddity that belongs to no call.
type Note struct {
	Server string
	Frame  int64
	Kind   string
}

// Calls reads frames, in their order, to the end. Where frames yields an error,
// Calls returns it with what the frames before it add up to.
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
		c.frame(frame)
	}
	return c.finish(), nil
}
