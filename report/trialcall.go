package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// callRow is a call on the wire, without its texts.
func (r *reading) callRow(call *evidence.Call) Row {
	end := outcomeOf(call.Outcome)
	row := Row{
		Kind: rowCall, Anchor: callAnchor(call.Seq), Number: fmt.Sprint(call.Seq), At: offset(r.from, call.Start),
		Source: r.sources[call.Server].Key, Lane: r.sources[call.Server].Lane, Who: brief(call.Server, nameSize), What: brief(call.Tool, nameSize), Preview: brief(string(call.Arguments), previewSize),
		End: &end, Took: lasted(call.Start, call.End), Failed: call.Outcome.Failed(), start: call.Start,
	}
	r.asked(&row, call)
	r.again(&row, call)
	r.known(&row, call)
	r.told(&row, call)
	for _, note := range call.Notes {
		row.note(note)
	}
	r.injected(&row, call)
	return row
}

// asked says who asked for a call.
func (r *reading) asked(row *Row, call *evidence.Call) {
	switch call.Origin {
	case evidence.OriginModel:
		row.note(fmt.Sprintf("Asked for by model turn %d.", call.Turn))
	case evidence.OriginOutOfBand:
		row.flag("warn", "out of band")
		row.note("No model asked for this call.")
	case evidence.OriginUnknown:
		if r.talk.Gateway {
			row.note("Whether a model asked for this call is not known.")
		}
	}
}

// again joins a call to others: those that it repeats, and the failure that it is about.
func (r *reading) again(row *Row, call *evidence.Call) {
	for _, relation := range r.related[call.Seq] {
		if relation.Kind == conversation.Retry {
			row.flag("", fmt.Sprintf("retry of %d", relation.Call))
		}
		row.note(sentence(relation.Text), relation.Call)
	}
}

// sentence is one of its words.
func sentence(words string) string { return capital(words) + "." }

// capital is words with a large first letter, which is one of ASCII.
func capital(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

// injected says what the attack put into a call's result.
func (r *reading) injected(row *Row, call *evidence.Call) {
	for _, n := range r.talk.Injected[call.Seq] {
		row.flag("fail", fmt.Sprintf("injection %d", n))
		row.note(fmt.Sprintf("The attack's injection %d is in what the agent got.", n))
	}
}

// known says how a call fits what the server listed.
func (r *reading) known(row *Row, call *evidence.Call) {
	if call.Known != nil && !*call.Known {
		row.flag("warn", "unknown tool")
		row.note("The server did not list this tool.")
	}
	if call.Valid != nil && !*call.Valid {
		row.flag("warn", "invalid arguments")
		row.note("The arguments do not fit the tool's schema: " + strings.Join(call.Invalid, "; ") + ".")
	}
	if call.Rounds > 0 {
		row.note(fmt.Sprintf("The server asked for input %d times.", call.Rounds))
	}
}

// told says where the agent tells of a call otherwise than it was.
func (r *reading) told(row *Row, call *evidence.Call) {
	n := r.talk.Narration
	if n == nil {
		return
	}
	if slices.Contains(n.Unreported, call.Seq) {
		row.flag("warn", "not told")
		row.note("The agent does not tell of this call.")
	}
	for _, d := range n.Differs {
		if d.Call == call.Seq {
			row.flag("warn", "told otherwise")
			row.note(fmt.Sprintf("The agent tells the %s otherwise: it says %s, and was %s.", d.In, brief(d.Says, noteSize/3), brief(d.Was, noteSize/3)))
		}
	}
}

// callTexts adds a call's texts.
func (r *reading) callTexts(row *Row, call *evidence.Call) {
	const where = evidence.CallsFile
	if len(call.Arguments) > 0 {
		row.part("Arguments", where, r.room.json(call.Arguments))
	}
	if len(call.Error) > 0 {
		row.part("Error", where, r.room.json(call.Error))
	}
	if len(call.Result) == 0 {
		return
	}
	text := capture.Text(call.Result)
	if text == "" {
		row.part("Result", where, r.room.json(call.Result))
		return
	}
	row.part("Result", where, r.room.either(text))
	if !isTextAlone(call.Result) {
		row.folded("Whole result", where, r.room.json(call.Result))
	}
}
