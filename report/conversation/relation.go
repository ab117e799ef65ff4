package conversation

import (
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Relation is what a call has to do with another, in words that go on behind the call.
type Relation struct {
	Kind RelationKind
	Call int // the other's number; 0 where there is none
	Text string
}

// RelationKind is the kind of a relation.
type RelationKind int

// Kinds of relations.
const (
	Failed RelationKind = iota // a failure, and what the agent did about it
	Beside                     // a failure at the same time, so no answer to the other
	Retry                      // made when the other's failure was known
	Same                       // as the other, in its tool and its arguments
)

// Relations are those of calls, by their numbers.
func (c Conversation) Relations() map[int][]Relation {
	calls, all := c.Calls(), map[int][]Relation{}
	bySeq := map[int]evidence.Call{}
	for _, call := range calls {
		bySeq[call.Seq] = call
	}
	for _, incident := range capture.Incidents(calls) {
		members := make([]evidence.Call, len(incident.Calls))
		for i, seq := range incident.Calls {
			members[i] = bySeq[seq]
		}
		for seq, relation := range within(members) {
			all[seq] = append(all[seq], relation)
		}
	}
	for _, call := range calls {
		if call.SameAs > 0 && !isRetry(all[call.Seq], call.SameAs) {
			text := fmt.Sprintf("same tool and arguments as call %d", call.SameAs)
			all[call.Seq] = append(all[call.Seq], Relation{Same, call.SameAs, text})
		}
	}
	return all
}

// isRetry reports whether a relation already says that a call repeats the other.
func isRetry(reported []Relation, of int) bool {
	return len(reported) > 0 && reported[0].Kind == Retry && reported[0].Call == of
}

// within relates the calls of an incident to the failure that was known first.
func within(calls []evidence.Call) map[int]Relation {
	failure, all := knownFirst(calls), map[int]Relation{}
	last, lastText := 0, ""
	for _, call := range calls {
		switch {
		case call.Seq == failure.Seq:
		case !call.Outcome.Failed() || follows(call, failure.End): // a success beside a failure is in no incident
			last, lastText = call.Seq, fmt.Sprintf("tried again%s, call %d %s", adapted(call, failure), call.Seq, came(call))
			all[call.Seq] = Relation{Retry, failure.Seq, fmt.Sprintf("retry of call %d%s, %s", failure.Seq, adapted(call, failure), came(call))}
		default:
			all[call.Seq] = Relation{Beside, failure.Seq, fmt.Sprintf("failed beside call %d", failure.Seq)}
		}
	}
	if last == 0 {
		lastText = "not tried again"
	}
	all[failure.Seq] = Relation{Failed, last, lastText}
	return all
}

// knownFirst is the failure that ended first; where none has an end, the first.
func knownFirst(calls []evidence.Call) evidence.Call {
	first := calls[0]
	for _, call := range calls[1:] {
		if call.Outcome.Failed() && !call.End.IsZero() && (first.End.IsZero() || call.End.Before(first.End)) {
			first = call
		}
	}
	return first
}

// follows says whether a call was made when a failure was known, which ended then.
func follows(call evidence.Call, known time.Time) bool {
	return !known.IsZero() && !call.Start.Before(known)
}

func adapted(call, failure evidence.Call) string {
	if capture.Equal(call.Arguments, failure.Arguments) {
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

// Mentions are the numbers of the calls that a verdict's details speak of, in their order.
func Mentions(v evidence.Verdict) []int {
	var found []int
	mentions(v.Details, &found)
	slices.Sort(found)
	return slices.Compact(found)
}

// mentions adds the numbers that stand in details where graders put those of calls.
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

// numbers are those of a list.
func numbers(value any) (all []int) {
	list, _ := value.([]any)
	for _, one := range list {
		if number, ok := one.(float64); ok {
			all = append(all, int(number))
		}
	}
	return all
}
