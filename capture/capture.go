// Package capture reads what crossed the proxy: it turns frames into calls and catalogs of
// tools, and lists what could not be seen. It judges nothing.
//
// It is pure: frames in, values out. It understands both eras of the protocol, sessions opened
// by initialize and stateless requests with their rounds of input. It trusts neither side: the
// case of keys counts, ids are compared by type and value, and a result never changes the
// request on record.
//
// Each call has what the catalog of its server said when the call was made: whether the server
// had listed the tool, whether as read-only, and whether the arguments fit the tool's input
// schema. A server may list different tools to different conversations, so the list that the
// call's own conversation got counts first, then those of others. A tool is reported as not
// known only where a complete list lacks it: not while pages are missing, not after a message
// that may have been a list and could not be read, and not after the server announced that its
// list has changed. Tools that are kept from the agent are not known to it.
//
// Frames are hostile. What they can cost is bounded by counting: lists by their tools (maxTools,
// maxListed), and checks of arguments by package schema. What is beyond the bounds stays
// unknown, and says so.
package capture

import (
	"fmt"
	"iter"

	"github.com/waza-isolate/waza/evidence"
)

// Result is what is read from a trial's frames.
type Result struct {
	Calls    []evidence.Call   // in the order of their first requests, numbered from 1
	Reads    []Read            // likewise
	Catalog  map[string][]Tool // by server: every tool it listed, also those kept from the agent, in the order first seen
	Complete map[string]bool   // by server: whether a list was seen with all of its pages
	Changes  []evidence.Change // of the tools that were listed to the agent, in order
	Gaps     []Gap             // what could not be seen
	Notes    []Note            // oddities that belong to no call
	// Named holds the ids of tool uses that clients put into their requests, by the number of
	// the call. They are claims of the client.
	Named map[int]string
}

// Tool is a tool as its server last described it.
type Tool = evidence.Tool

// Gap is a part of the traffic that could not be understood. Questions about the server's calls
// then have no certain answer.
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

// Calls reads frames, in order, to the end. Where frames yields an error, Calls returns it with
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
		c.frame(frame)
	}
	return c.finish(), nil
}
