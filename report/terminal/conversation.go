package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Shown configures how a conversation is shown.
type Shown struct {
	Full  bool // do not shorten anything
	Width int  // of lines, in columns; 0 for no limit
	Style Style
}

// Conversation writes the course of a trial.
func Conversation(w io.Writer, c view.Conversation, how Shown) error {
	s := shown{Shown: how}
	out := s.conversation(c)
	if how.Width > 0 {
		out = wrapped(out, how.Width)
	}
	_, err := w.Write(out)
	return err
}

// wrapped breaks lines that are longer than width, and indents the continuations. A terminal would continue
// them at its left edge, where untrusted text looks like output of waza.
func wrapped(lines []byte, width int) []byte {
	const further = "    "
	var out bytes.Buffer
	for line := range strings.Lines(string(lines)) {
		line = strings.TrimSuffix(line, "\n")
		if text.Columns(line) <= width {
			out.WriteString(line + "\n")
			continue
		}
		rest := strings.TrimLeft(line, " ")
		indent := line[:min(len(line)-len(rest), width/2)]
		for i, part := range text.Wrap(rest, width-len(indent)-len(further)) {
			if i == 1 {
				indent += further
			}
			out.WriteString(indent + part + "\n")
		}
	}
	return out.Bytes()
}

// shown formats a conversation. Untrusted text is indented, so that it cannot look like
// output of waza, and contains no terminal control sequences.
type shown struct {
	Shown
	printed map[string]string // see [view.Conversation]; only what has not been shown yet
	began   time.Time         // reference for displayed times; earlier ones are negative
}

// Limits on shortened texts.
const (
	shownLines = 12
	shownBytes = 800
)

// text returns an untrusted text, indented.
func (s shown) text(indent, said string) string {
	said = strings.ReplaceAll(strings.TrimRight(said, "\r\n\t "), "\r\n", "\n")
	if said == "" {
		return ""
	}
	cut, left := said, 0
	if !s.Full {
		cut, left = clip(said)
	}
	var out strings.Builder
	for line := range strings.SplitSeq(cut, "\n") {
		out.WriteString(strings.TrimRight(indent+text.Inert(line), " ") + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&out, "%s… %d more bytes; --full shows them\n", indent, left)
	}
	return out.String()
}

// clip returns the beginning of a text, and the number of bytes left out.
func clip(text string) (string, int) {
	cut := text
	if len(cut) > shownBytes {
		cut = strings.ToValidUTF8(cut[:shownBytes], "")
	}
	if lines := strings.SplitAfterN(cut, "\n", shownLines+1); len(lines) > shownLines {
		cut = strings.TrimSuffix(strings.Join(lines[:shownLines], ""), "\n")
	}
	return cut, len(text) - len(cut)
}

// line returns an untrusted text on one line.
func (s shown) line(said string) string {
	const most = shownBytes / 4
	said, mark := strings.TrimSpace(said), ""
	if !s.Full && len(said) > most {
		said, mark = strings.ToValidUTF8(said[:most], ""), "…"
	}
	return text.Inert(strings.NewReplacer("\r\n", " ", "\n", " ").Replace(said)) + mark
}

// conversation returns the steps of a trial in order, with what precedes and follows them.
func (s shown) conversation(c view.Conversation) []byte {
	var out bytes.Buffer
	s.began = c.Trial.Started
	if !c.Trial.AgentStart.IsZero() {
		s.began = c.Trial.AgentStart
	}
	class, reason, message := c.Trial.Outcome(c.Verdicts)
	outcome := Paint(s.Style, view.StateOf(class))(s.line(view.EndedAs(class, reason)))
	fmt.Fprintf(&out, "%s/%d  %s  executor %s\n", s.line(c.Trial.Task), c.Trial.Number, outcome, s.line(c.Trial.Executor))
	out.WriteString(s.text("  ", message))
	if !c.Gateway && !evidence.AsksNoModel(c.Trial.Executor) {
		out.WriteString("what the agent asked models was not recorded: config.models names none\n")
	}
	out.WriteString(s.title("prompt") + s.text("  ", c.Trial.Prompt))
	remarks, events := c.Remarks(), s.selected(slices.DeleteFunc(slices.Clone(c.Events), view.Usual))
	s.printed = maps.Clone(c.Printed)
	for _, step := range c.Steps {
		events = s.until(&out, events, c.Begins(step))
		out.WriteString("\n" + s.step(step, remarks))
	}
	s.until(&out, events, time.Time{})
	out.WriteString(s.replies(c))
	out.WriteString(s.title("final output") + s.text("  ", c.Trial.FinalOutput))
	out.WriteString(s.section("misreported by the agent", c.Contradicted))
	out.WriteString(s.section("missing", c.Gaps))
	out.WriteString(s.verdicts(c.Verdicts))
	return out.Bytes()
}

// replies returns the replies of the simulated user. They have no time.
func (s shown) replies(c view.Conversation) string {
	var out strings.Builder
	if user := c.Trial.Responder; user != nil || len(c.Replies) > 0 {
		out.WriteString(s.title("replies of the simulated user"))
	}
	for _, reply := range c.Replies {
		out.WriteString("  " + reply.Did() + "\n" + s.text("    ", reply.Text()))
	}
	if user := c.Trial.Responder; user != nil {
		fmt.Fprintf(&out, "  in the end: %s\n", s.line(strings.ReplaceAll(user.Outcome, "_", " ")))
	}
	return out.String()
}

// title returns the heading of a section.
func (s shown) title(of string) string { return "\n" + s.Style.Strong(of) + "\n" }

func (s shown) step(step view.Step, remarks map[int][]view.Remark) string {
	switch {
	case step.Turn != nil:
		return s.turn(step.Turn)
	case step.Own != nil:
		return s.own(step.Own)
	case step.Said != "":
		return "the agent says\n" + s.text("  ", step.Said)
	case step.Claim != nil:
		return fmt.Sprintf("%s  %s\n%s", s.Style.Bad(strings.ToUpper(view.NeverMade)), s.line(step.Claim.Name), s.with(step.Claim.Arguments))
	}
	return s.call(step.Call, remarks[step.Call.Seq])
}

// own returns the lines about a use of the agent's own tool, as reported by the agent.
func (s shown) own(use *capture.Use) string {
	outcome, kind := s.Style.Bad(view.NoSuccess), s.Style.Builtin
	if use.OK {
		outcome = s.Style.Good("ok")
	}
	if use.Source == capture.SourceSkill {
		kind = s.Style.Skill
	}
	out := fmt.Sprintf("%s  %s, %s\n%s", kind(use.Source+"  "+s.line(use.Tool)), outcome, view.AsReported, s.with(use.Arguments))
	if result, err := results.ResultOf(*use); err != nil {
		out += s.text("  ", err.Error())
	} else if result != nil {
		out += s.text("  ", result.Content)
	}
	return out
}

func (s shown) with(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, arguments) == nil {
		arguments = compact.Bytes()
	}
	return "  with " + s.line(string(arguments)) + "\n"
}

// turn returns the lines about a model's response: its text, the tools it asks for, and the
// results of uses that made no call on the wire.
func (s shown) turn(t *view.Turn) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s  %s\n", s.at(t.Start), s.Style.Strong(fmt.Sprintf("model call %d", t.Seq)), strings.Join(s.turnFacts(t), "  "))
	out.WriteString(s.text("  ", t.Text))
	if t.Problem != "" {
		out.WriteString("  " + s.line(t.Problem) + "\n")
	}
	for _, use := range t.Uses {
		fmt.Fprintf(&out, "  asks for %s %s\n", s.line(use.Name), s.line(string(use.Arguments)))
		if came := use.Came(); came != "" {
			out.WriteString("    " + came + "\n")
		}
		if use.Call == 0 && use.Result != nil {
			out.WriteString(s.text("    ", use.Result.Text))
		}
	}
	return out.String()
}

func (s shown) turnFacts(t *view.Turn) []string {
	var facts []string
	if t.Model != "" {
		facts = append(facts, s.line(t.Model))
	}
	if ended := t.Ended(); ended != "" {
		facts = append(facts, s.Style.Bad(s.line(ended)))
	}
	if tokens := t.Tokens(); tokens != "" {
		facts = append(facts, tokens)
	}
	return append(facts, elapsed(t.Start, t.End))
}

func elapsed(start, end time.Time) string {
	if end.Before(start) {
		return "no end"
	}
	return view.Clock(end.Sub(start))
}

func (s shown) section(title string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	out := s.title(title)
	for _, line := range lines {
		out += "  " + s.line(line) + "\n"
	}
	return out
}

// shownEvents is the number of events of a kind shown, if not all are.
const shownEvents = 10

// selected returns the events to show: the first ones of each kind, and one that represents the others.
func (s shown) selected(events []evidence.Event) (some []evidence.Event) {
	if s.Full {
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

// until writes the events before end, or all if it is zero, and returns the others.
func (s shown) until(out *bytes.Buffer, events []evidence.Event, end time.Time) []evidence.Event {
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

// event returns the line of an event.
func (s shown) event(e evidence.Event) string {
	facts := []string{Paint(s.Style, view.StateOfEvent(e))("event  " + s.line(view.EventWord(e)))}
	for _, text := range []string{e.Where, e.Message} {
		if text != "" {
			facts = append(facts, s.line(text))
		}
	}
	if e.Kind == view.EventCommand {
		end, matched := view.Invocation(e)
		if !matched {
			end = s.Style.Bad(end)
		}
		facts = append(facts, end)
	}
	printed := s.text("  ", s.printed[e.Where])
	delete(s.printed, e.Where)
	return s.at(e.Time) + strings.Join(facts, "  ") + "\n" + printed
}

// verdicts returns the verdicts, with the calls that they refer to.
func (s shown) verdicts(v evidence.Verdicts) string {
	var out strings.Builder
	out.WriteString(s.graded("verdicts", v.Verdicts))
	for _, c := range v.Checkpoints {
		title := fmt.Sprintf("checkpoint after turn %d: %s", c.AfterTurn, s.line(view.Word(c.Class)))
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
	line := fmt.Sprintf("  %s  %s  %.2f", s.line(v.Name), Paint(s.Style, view.StateOf(v.Result))(s.line(view.Word(v.Result))), v.Score)
	if calls := view.Mentions(v); len(calls) > 0 {
		line += "  about " + view.Counted(calls, "call")
	}
	return line + "\n" + s.text("    ", v.Feedback)
}

// attack returns the section about the attack.
func (s shown) attack(v evidence.AttackVerdict) string {
	out := s.title("attack") + "  " + Paint(s.Style, view.StateOfAttack(v.Result))(s.line(string(v.Result))) + "  " + s.line(v.Goal) + "\n"
	for _, why := range v.Reasons {
		out += s.text("    ", why)
	}
	return out
}

// at returns the time of t in seconds since the agent's start.
func (s shown) at(t time.Time) string {
	if t.IsZero() || s.began.IsZero() {
		return ""
	}
	return s.Style.Faint(fmt.Sprintf("%+.3fs", t.Sub(s.began).Seconds())) + "  "
}

// call returns the lines about a tool call on the wire.
func (s shown) call(call *evidence.Call, remarks []view.Remark) string {
	facts := []string{
		s.Style.Strong(fmt.Sprintf("call %d", call.Seq)),
		s.Style.Server(fmt.Sprintf("mcp  %s of %s", s.line(call.Tool), s.line(call.Server))),
		Paint(s.Style, view.StateOf(call.Outcome))(s.line(view.Word(call.Outcome))), elapsed(call.Start, call.End),
	}
	for _, remark := range remarks {
		facts = append(facts, s.remark(remark))
	}
	return s.at(call.Start) + strings.Join(facts, "  ") + "\n" + s.with(call.Arguments) + s.text("  ", resultText(call))
}

// remark returns a remark on a call. Important ones are in capital letters.
func (s shown) remark(r view.Remark) string {
	said := s.line(r.Text)
	if r.State == view.Bad {
		said = strings.Replace(said, r.Flag, strings.ToUpper(r.Flag), 1)
	}
	return Paint(s.Style, r.State)(said)
}

// resultText returns the text of a call's result, or the whole result.
func resultText(call *evidence.Call) string {
	result, err := call.Result.Raw()
	if err != nil {
		return err.Error()
	}
	for _, raw := range []json.RawMessage{call.Error, result} {
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
