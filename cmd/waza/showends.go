package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// shownEvents is how many events of a kind are shown where not all are.
const shownEvents = 10

// selected are the events to show: of a kind that has many the first, and one in place of
// the others.
func (s shown) selected(events []evidence.Event) (some []evidence.Event) {
	if s.full {
		return events
	}
	seen, all := map[string]int{}, map[string]int{}
	for _, e := range events {
		all[e.Kind]++
	}
	for _, e := range events {
		if seen[e.Kind]++; seen[e.Kind] <= shownEvents {
			some = append(some, e)
		} else if seen[e.Kind] == shownEvents+1 {
			more := fmt.Sprintf("%d more from here on; --full shows them", all[e.Kind]-shownEvents)
			some = append(some, evidence.Event{Time: e.Time, Kind: e.Kind, Message: more})
		}
	}
	return some
}

// until writes the events before a step, and returns the others; all before a step that
// is none. What only a transcript tells has no time: nothing is before it.
func (s shown) until(out *bytes.Buffer, events []evidence.Event, step conversation.Step) []evidence.Event {
	var end time.Time
	switch {
	case step.Turn != nil:
		end = step.Turn.Start
	case step.Call != nil:
		end = step.Call.Start
	case step != (conversation.Step{}):
		return events
	}
	n := 0
	for n < len(events) && (end.IsZero() || events[n].Time.Before(end)) {
		if n == 0 {
			out.WriteByte('\n')
		}
		out.WriteString(s.event(events[n]))
		n++
	}
	return events[n:]
}

// event is what happened beside the calls.
func (s shown) event(e evidence.Event) string {
	facts := []string{s.style.Doubtful("event  " + s.line(e.Kind))}
	for _, text := range []string{e.Where, e.Message} {
		if text != "" {
			facts = append(facts, s.line(text))
		}
	}
	if e.Kind == conversation.EventCommand {
		end, matched := conversation.Invocation(e)
		if !matched {
			end = s.style.Bad(end)
		}
		facts = append(facts, end)
	}
	return s.at(e.Time) + strings.Join(facts, "  ") + "\n"
}

// verdicts are what graders say, with the calls that they speak of.
func (s shown) verdicts(v evidence.Verdicts) string {
	var out strings.Builder
	out.WriteString(s.graded("verdicts", v.Verdicts))
	for _, c := range v.Checkpoints {
		title := fmt.Sprintf("checkpoint after turn %d: %s", c.AfterTurn, s.line(string(c.Class)))
		if c.Stopped {
			title += ", and the conversation ended there"
		}
		out.WriteString(s.graded(title, c.Verdicts.Verdicts))
	}
	if v.Attack != nil {
		out.WriteString(s.attack(*v.Attack))
	}
	return out.String()
}

func (s shown) graded(title string, all []evidence.Verdict) string {
	out := s.title(title)
	for _, one := range all {
		out += s.verdict(one)
	}
	if len(all) == 0 {
		out += "  none\n"
	}
	return out
}

func (s shown) verdict(v evidence.Verdict) string {
	result := s.style.Bad
	switch v.Result {
	case evidence.VerdictPass:
		result = s.style.Good
	case evidence.VerdictError:
		result = s.style.Doubtful
	}
	line := fmt.Sprintf("  %s  %s  %.2f", s.line(v.Name), result(s.line(string(v.Result))), v.Score)
	if calls := conversation.Mentions(v); len(calls) > 0 {
		line += "  about " + counted(calls, "call")
	}
	return line + "\n" + s.text("    ", v.Feedback)
}

// attack is what came of what somebody else wanted of the agent.
func (s shown) attack(v evidence.AttackVerdict) string {
	result := s.style.Good
	switch v.Result {
	case evidence.AttackSucceeded:
		result = s.style.Bad
	case evidence.AttackNotDelivered, evidence.AttackUnknown:
		result = s.style.Doubtful
	}
	out := s.title("attack") + "  " + result(s.line(string(v.Result))) + "  " + s.line(v.Goal) + "\n"
	for _, why := range v.Reasons {
		out += s.text("    ", why)
	}
	return out
}
