package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Remark is a phrase about a call: who asked for it, how it relates to other calls, and
// what is unusual about it.
type Remark struct {
	Flag  string // a word or two about what is unusual; the phrase may begin with it
	Text  string
	More  string // an additional phrase, if there is space
	Call  int    // another call that the phrase refers to; 0 for none
	State State  // Plain, Doubtful for a mistake of the server or the agent, or Bad
}

// Remarks returns the remarks on each call, by call number.
func (c Conversation) Remarks() map[int][]Remark {
	calls, all := c.Calls(), map[int][]Remark{}
	related, canaries := relations(calls), c.canaries()
	for _, call := range calls {
		all[call.Seq] = slices.Concat(faulty(call), c.askedFor(call), related[call.Seq], c.injected(call), canaries[call.Seq], listed(call), c.reported(call))
		for _, note := range call.Notes {
			all[call.Seq] = append(all[call.Seq], Remark{Text: note})
		}
	}
	return all
}

// faulty returns a remark about the fault that waza injected into a call.
func faulty(call evidence.Call) []Remark {
	if call.Fault == "" {
		return nil
	}
	said := "fault: " + string(call.Fault)
	return []Remark{{Flag: said, Text: said, State: Doubtful}}
}

// askedFor returns a remark about who asked for a call, if models were called through a gateway.
func (c Conversation) askedFor(call evidence.Call) []Remark {
	switch {
	case call.Origin == evidence.OriginModel:
		return []Remark{{Text: fmt.Sprintf("asked for by model call %d", call.Turn)}}
	case call.Origin == evidence.OriginOutOfBand:
		return []Remark{{Flag: "out of band", Text: "out of band: no model asked for it", State: Bad}}
	case c.Gateway:
		return []Remark{{Text: "whether a model asked for it is not known"}}
	}
	return nil
}

// injected returns a remark about the attack's injections in a call's result.
func (c Conversation) injected(call evidence.Call) []Remark {
	numbers := c.Injected[call.Seq]
	if len(numbers) == 0 {
		return nil
	}
	return []Remark{{Flag: "injected", Text: "injected: " + Counted(numbers, "injection") + " of the attack in its result", State: Bad}}
}

// canaries returns remarks about the calls in which a canary was seen, according to events.
func (c Conversation) canaries() map[int][]Remark {
	all, calls := map[int][]Remark{}, c.CallsByFrame()
	for _, e := range c.Events {
		frame, _ := e.Data["frame"].(float64)
		for _, call := range calls[int64(frame)] {
			if e.Kind == evidence.EventCanary && all[call.Seq] == nil {
				all[call.Seq] = []Remark{{Flag: "canary", Text: e.Message, State: Bad}}
			}
		}
	}
	return all
}

// listed returns remarks about how a call matches the tools that the server listed.
func listed(call evidence.Call) (all []Remark) {
	if call.Known != nil && !*call.Known {
		all = append(all, Remark{Flag: "unknown tool", Text: "no such tool was listed", State: Doubtful})
	}
	if call.Valid != nil && !*call.Valid || len(call.Invalid) > 0 {
		all = append(all, Remark{Flag: "invalid arguments", Text: "not as the tool's schema wants it: " + strings.Join(call.Invalid, "; "), State: Doubtful})
	}
	if call.Rounds > 0 {
		all = append(all, Remark{Text: "the server asked for input " + text.Count(call.Rounds, "time")})
	}
	return all
}

// reported returns remarks about how the agent misreports a call.
func (c Conversation) reported(call evidence.Call) (all []Remark) {
	if c.Narration == nil {
		return nil
	}
	if slices.Contains(c.Narration.Unreported, call.Seq) {
		all = append(all, Remark{Flag: "not reported", Text: "not reported by the agent", State: Bad})
	}
	for _, d := range c.Narration.Differs {
		if d.Call == call.Seq {
			all = append(all, Remark{
				Flag: "misreported", Text: "misreported by the agent: its " + d.In, More: fmt.Sprintf("it says %s, and was %s", text.Fit(d.Claimed, maxQuoted), text.Fit(d.Actual, maxQuoted)), State: Bad,
			})
		}
	}
	return all
}

// maxQuoted is the maximum length of a quotation from the agent's account, in columns.
const maxQuoted = 160

// Counted lists things by their numbers. numbers must not be empty.
func Counted(numbers []int, thing string) string {
	const most = 20
	if len(numbers) > 1 {
		thing += "s"
	}
	return thing + " " + strings.Join(text.Some(numbers, most, strconv.Itoa), ", ")
}

// relations returns remarks about the relations between calls, by call number: retries, and the calls that
// followed failures.
func relations(calls []evidence.Call) map[int][]Remark {
	all := map[int][]Remark{}
	for _, incident := range capture.Incidents(calls) {
		for seq, remark := range within(incident) {
			all[seq] = append(all[seq], remark)
		}
	}
	for _, call := range calls {
		if call.SameAs > 0 && !isRetry(all[call.Seq], call.SameAs) {
			all[call.Seq] = append(all[call.Seq], Remark{Text: fmt.Sprintf("same tool and arguments as call %d", call.SameAs), Call: call.SameAs})
		}
	}
	return all
}

// isRetry reports whether a remark already says that a call repeats another.
func isRetry(said []Remark, of int) bool {
	return len(said) > 0 && said[0].Flag != "" && said[0].Call == of
}

// within relates the calls of an incident to its first known failure.
func within(calls []evidence.Call) map[int]Remark {
	failure, all := knownFirst(calls), map[int]Remark{}
	last, lastText := 0, ""
	for _, call := range calls {
		switch {
		case call.Seq == failure.Seq:
		case !call.Outcome.Failed() || follows(call, failure.End): // a success during the failed call belongs to no incident
			last, lastText = call.Seq, fmt.Sprintf("tried again%s, call %d %s", adapted(call, failure), call.Seq, came(call))
			all[call.Seq] = Remark{
				Flag: fmt.Sprintf("retry of %d", failure.Seq), Text: fmt.Sprintf("retry of call %d%s, %s", failure.Seq, adapted(call, failure), came(call)), Call: failure.Seq,
			}
		default:
			all[call.Seq] = Remark{Text: fmt.Sprintf("failed beside call %d", failure.Seq), Call: failure.Seq}
		}
	}
	if last == 0 {
		lastText = "not tried again"
	}
	all[failure.Seq] = Remark{Text: lastText, Call: last}
	return all
}

// knownFirst returns the failed call that ended first, or the first call if no end is known.
func knownFirst(calls []evidence.Call) evidence.Call {
	first := calls[0]
	for _, call := range calls[1:] {
		if call.Outcome.Failed() && !call.End.IsZero() && (first.End.IsZero() || call.End.Before(first.End)) {
			first = call
		}
	}
	return first
}

// follows reports whether a call was made after a failure became known.
func follows(call evidence.Call, known time.Time) bool {
	return !known.IsZero() && !call.Start.Before(known)
}

func adapted(call, failure evidence.Call) string {
	if jsontext.Same(call.Arguments, failure.Arguments) {
		return ""
	}
	return " with other arguments"
}

func came(call evidence.Call) string {
	switch {
	case call.Outcome == evidence.OutcomeOK:
		return "succeeded"
	case call.Outcome.Failed():
		return "failed too"
	}
	return "was " + string(call.Outcome)
}

// Mentions returns the numbers of the calls mentioned in a verdict's details, sorted.
func Mentions(v evidence.Verdict) []int {
	var found []int
	mentions(v.Details, &found)
	slices.Sort(found)
	return slices.Compact(found)
}

// mentions collects the numbers in details that graders use for calls.
func mentions(details any, found *[]int) {
	switch value := details.(type) {
	case map[string]any:
		for key, inner := range value {
			if number, ok := inner.(float64); ok && slices.Contains([]string{"call", "by", "nearest"}, key) {
				*found = append(*found, int(number))
			} else if slices.Contains([]string{"calls", "extras", "counted", "expected", "soft"}, key) {
				*found = append(*found, numbers(inner)...)
			}
			mentions(inner, found)
		}
	case []any:
		for _, inner := range value {
			mentions(inner, found)
		}
	}
}

// numbers returns the numbers in a list.
func numbers(value any) (all []int) {
	list, _ := value.([]any)
	for _, one := range list {
		if number, ok := one.(float64); ok {
			all = append(all, int(number))
		}
	}
	return all
}
