package capture

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Tie sets the origin of each captured call: the tool use in a model's response that the
// call executes. Each use is executed once. models yields the model calls of the trial in
// any order, or is nil without a gateway. tools is as returned by [Tools].
//
// A call executes a use if the name of the use refers to its tool, the arguments are equal,
// and the call was made after the model's response and before a model was shown the result.
// The ID of the use in the client's request restricts the candidates. If there are more
// calls than uses, those of a client that has executed other uses take precedence; if that
// does not decide, the origin of all of them is unknown. The origin of a call without an ID
// is also unknown if part of the server's traffic was not recorded, or if a model was asked
// something else before the call and was never shown the result of the use.
//
// A call without a remaining use is out of band. Its origin is unknown instead if part of
// the earlier responses is missing, or if a use of the same tool with other arguments
// remains, since the agent may have changed those.
func Tie(captured Result, tools map[string][]string, models iter.Seq2[evidence.ModelCall, error]) {
	if models == nil {
		for i := range captured.Calls {
			captured.Calls[i].Origin = evidence.OriginUnknown
		}
		return
	}
	t := newTying(captured, tools, readAsked(models))
	t.pickAll()
	t.settle()
	for i := range t.calls {
		t.record(i)
	}
}

// tying is a [Tie] in progress.
type tying struct {
	*asked
	calls    []evidence.Call
	named    map[int]string
	forms    []string // canonical arguments of each call
	carried  []*use   // use that each call executes; may be nil
	doubtful []bool   // for each call, whether it is unknown which of several calls executes the use
	gaps     []Gap
	same     map[withInput][]*use        // in order of turns
	of       map[evidence.ToolRef][]*use // uses of a tool, with any arguments
}

func newTying(captured Result, tools map[string][]string, a *asked) *tying {
	t := &tying{
		asked: a, calls: captured.Calls, named: captured.Named, gaps: captured.Gaps,
		carried: make([]*use, len(captured.Calls)), doubtful: make([]bool, len(captured.Calls)),
		same: map[withInput][]*use{}, of: map[evidence.ToolRef][]*use{},
	}
	names := make([]string, len(a.uses))
	for i, u := range a.uses {
		names[i] = u.name
	}
	for i, means := range Resolve(tools, names...) {
		u := a.uses[i]
		for _, ref := range means.Tools {
			key := withInput{ref, u.form}
			t.same[key] = append(t.same[key], u)
			t.of[ref] = append(t.of[ref], u)
		}
	}
	for _, call := range captured.Calls {
		t.forms = append(t.forms, argumentsForm(call.Arguments))
	}
	return t
}

// argumentsForm returns the canonical form of a call's arguments. Missing arguments have the form of an empty
// object.
func argumentsForm(raw json.RawMessage) string {
	if len(raw) == 0 || isNull(raw) {
		raw = json.RawMessage("{}")
	}
	form, _ := jsontext.Canonical(raw)
	return form
}

// fitting yields the uses that a call may execute, including those that other calls have.
func (t *tying) fitting(call int) iter.Seq[*use] {
	return func(yield func(*use) bool) {
		id := t.named[t.calls[call].Seq]
		for _, u := range t.same[withInput{t.calls[call].ToolRef(), t.forms[call]}] {
			if (id == "" || id == u.id) && u.open(t.calls[call].Start) && !yield(u) {
				return
			}
		}
	}
}

// open reports whether a call made at the given time may execute the use.
func (u *use) open(at time.Time) bool {
	return !at.Before(u.from) && (u.until.IsZero() || !at.After(u.until))
}

// sooner reports whether u closes before other.
func (u *use) sooner(other *use) bool {
	return !u.until.IsZero() && (other.until.IsZero() || u.until.Before(other.until))
}

// pickAll assigns uses to calls, first to the calls that have the ID of a use.
func (t *tying) pickAll() {
	for _, naming := range []bool{true, false} {
		for i, call := range t.calls {
			if (t.named[call.Seq] != "") == naming {
				t.pick(i)
			}
		}
	}
}

// pick assigns to a call the free matching use that closes first. This maximizes the number of calls with a
// use.
func (t *tying) pick(call int) {
	var best *use
	for u := range t.fitting(call) {
		if u.call == none && (best == nil || u.sooner(best)) {
			best = u
		}
	}
	if best != nil {
		t.give(best, call)
	}
}

func (t *tying) give(u *use, call int) {
	u.call, t.carried[call] = call, u
}

// rivals returns the calls whose use could equally belong to the given call, which has none.
func (t *tying) rivals(call int) (found []int) {
	for u := range t.fitting(call) {
		names := t.named[t.calls[call].Seq] != ""
		if u.call != none && (names || t.named[t.calls[u.call].Seq] == "") {
			found = append(found, u.call)
		}
	}
	return found
}

// settle decides which calls keep their use if there are more calls than uses.
func (t *tying) settle() {
	rivals := map[int][]int{}
	contested := map[int]bool{}
	for i := range t.calls {
		if t.carried[i] != nil {
			continue
		}
		rivals[i] = t.rivals(i)
		for _, rival := range rivals[i] {
			contested[rival] = true
		}
	}
	trusted := map[connID]bool{}
	for i, call := range t.calls {
		if t.carried[i] != nil && !contested[i] {
			trusted[connID{call.Server, call.Conn}] = true
		}
	}
	for i := range t.calls {
		if len(rivals[i]) > 0 {
			t.decide(i, rivals[i], func(call int) bool {
				return trusted[connID{t.calls[call].Server, t.calls[call].Conn}]
			})
		}
	}
}

// decide decides between a call and its rivals.
func (t *tying) decide(call int, rivals []int, trusted func(int) bool) {
	weaker := slices.IndexFunc(rivals, func(r int) bool { return !trusted(r) })
	switch {
	case weaker < 0 && !trusted(call):
		return
	case weaker >= 0 && trusted(call) && t.carried[rivals[weaker]] != nil:
		u := t.carried[rivals[weaker]]
		t.carried[rivals[weaker]] = nil
		t.give(u, call)
		return
	}
	for _, one := range append(rivals, call) {
		t.doubtful[one] = true
	}
}

// record sets the origin of a call.
func (t *tying) record(i int) {
	call, u := &t.calls[i], t.carried[i]
	switch {
	case t.doubtful[i], u != nil && t.named[call.Seq] == "" && (t.late(i, u) || t.unseen(call.Server)):
		call.Origin = evidence.OriginUnknown
	case u != nil:
		call.Origin, call.Turn, call.ToolUse = evidence.OriginModel, u.turn, u.id
	case t.blind, !t.blindFrom.IsZero() && !call.Start.Before(t.blindFrom), t.mayBeChanged(i):
		call.Origin = evidence.OriginUnknown
	default:
		call.Origin = evidence.OriginOutOfBand
	}
}

// late reports whether a call came so late that its use may have been abandoned: no model
// was shown the result, and one was asked something else before the call.
func (t *tying) late(call int, u *use) bool {
	return u.until.IsZero() && !u.next.IsZero() && t.calls[call].Start.After(u.next)
}

// unseen reports whether calls to a server may be missing from the record.
func (t *tying) unseen(server string) bool {
	return slices.ContainsFunc(t.gaps, func(g Gap) bool { return g.Server == "" || g.Server == server })
}

// mayBeChanged reports whether a free use of the call's tool remains that the call may execute with other
// arguments. For a use without an ID it ignores when the use closes, which is a guess.
func (t *tying) mayBeChanged(call int) bool {
	at := t.calls[call].Start
	return slices.ContainsFunc(t.of[t.calls[call].ToolRef()], func(u *use) bool {
		return u.call == none && !at.Before(u.from) && (u.id == "" || u.open(at))
	})
}
