package terminal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// marks is what is to be said of calls beside what they were.
type marks struct {
	gateway   bool
	related   map[int][]conversation.Relation // by call
	injected  map[int][]int
	untold    []int // calls that the agent does not tell of
	otherwise map[int]string
}

func newMarks(c conversation.Conversation) marks {
	m := marks{gateway: c.Gateway, injected: c.Injected, related: c.Relations(), otherwise: map[int]string{}}
	if c.Narration != nil {
		m.untold = c.Narration.Unreported
		for _, d := range c.Narration.Differs {
			m.otherwise[d.Call] = d.In
		}
	}
	return m
}

// at is how long after the agent's start something was.
func (s shown) at(t time.Time) string {
	if t.IsZero() || s.began.IsZero() {
		return ""
	}
	return s.Style.Faint(fmt.Sprintf("%+.3fs", t.Sub(s.began).Seconds())) + "  "
}

// call is a tool call on the wire.
func (s shown) call(call *evidence.Call, told marks) string {
	outcome := s.Style.Bad
	if call.Outcome == evidence.OutcomeOK {
		outcome = s.Style.Good
	}
	facts := []string{
		s.Style.Strong(fmt.Sprintf("call %d", call.Seq)),
		s.Style.Server(fmt.Sprintf("mcp  %s of %s", s.line(call.Tool), s.line(call.Server))),
		outcome(s.line(string(call.Outcome))), elapsed(call.Start, call.End),
	}
	if told.gateway {
		facts = append(facts, s.askedBy(call))
	}
	for _, relation := range told.related[call.Seq] {
		facts = append(facts, relation.Text)
	}
	out := s.at(call.Start) + strings.Join(append(facts, s.doubts(call, told)...), "  ") + "\n" + s.with(call.Arguments)
	for _, why := range call.Invalid {
		out += "  not as the tool's schema wants it: " + s.line(why) + "\n"
	}
	return out + s.text("  ", resultText(call))
}

// doubts are what a person should see at a call.
func (s shown) doubts(call *evidence.Call, told marks) (all []string) {
	if numbers := told.injected[call.Seq]; len(numbers) > 0 {
		all = append(all, s.Style.Bad("INJECTED: "+counted(numbers, "injection")+" of the attack in its result"))
	}
	if call.Known != nil && !*call.Known {
		all = append(all, s.Style.Doubtful("no such tool was listed"))
	}
	if slices.Contains(told.untold, call.Seq) {
		all = append(all, s.Style.Bad("NOT TOLD by the agent"))
	}
	if in := told.otherwise[call.Seq]; in != "" {
		all = append(all, s.Style.Bad("TOLD OTHERWISE by the agent: its "+s.line(in)))
	}
	return all
}

// counted names things by their numbers, of which there is one at least.
func counted(numbers []int, thing string) string {
	const most = 20
	var words []string
	for _, n := range numbers[:min(len(numbers), most)] {
		words = append(words, fmt.Sprint(n))
	}
	text := thing
	if len(numbers) > 1 {
		text += "s"
	}
	text += " " + strings.Join(words, ", ")
	if more := len(numbers) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (s shown) askedBy(call *evidence.Call) string {
	switch call.Origin {
	case evidence.OriginModel:
		return fmt.Sprintf("asked for by model call %d", call.Turn)
	case evidence.OriginOutOfBand:
		return s.Style.Bad("OUT OF BAND: no model asked for it")
	}
	return "whether a model asked for it is not known"
}

// resultText is the text of what came of a call, or else all of it.
func resultText(call *evidence.Call) string {
	for _, raw := range []json.RawMessage{call.Error, call.Result} {
		if len(raw) == 0 {
			continue
		}
		if text := capture.Text(raw); text != "" {
			return text
		}
		return string(raw)
	}
	return ""
}
