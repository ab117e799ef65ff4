package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/report/conversation"
	"github.com/waza-isolate/waza/results"
)

// conversation is a trial as it went.
func (s shown) conversation(c conversation.Conversation) []byte {
	var out bytes.Buffer
	s.began = c.Trial.Started
	if !c.Trial.AgentStart.IsZero() {
		s.began = c.Trial.AgentStart
	}
	class, reason, message := c.Trial.Outcome(c.Verdicts)
	outcome := liveview.Paint(s.style, class)(s.line(class.With(reason)))
	fmt.Fprintf(&out, "%s/%d  %s  executor %s\n", s.line(c.Trial.Task), c.Trial.Number, outcome, s.line(c.Trial.Executor))
	out.WriteString(s.text("  ", message))
	if !c.Gateway {
		out.WriteString("no model gateway was in the way: what models were asked is not known\n")
	}
	out.WriteString(s.title("prompt") + s.text("  ", c.Trial.Prompt))
	told, events := newMarks(c), s.selected(slices.DeleteFunc(slices.Clone(c.Events), conversation.Usual))
	for _, step := range c.Steps {
		events = s.until(&out, events, step)
		out.WriteString("\n" + s.step(step, told))
	}
	s.until(&out, events, conversation.Step{})
	out.WriteString(s.replies(c))
	out.WriteString(s.title("final output") + s.text("  ", c.Trial.FinalOutput))
	out.WriteString(s.section("told otherwise by the agent", c.Told))
	out.WriteString(s.section("missing", c.Gaps))
	out.WriteString(s.verdicts(c.Verdicts))
	return out.Bytes()
}

// replies are what a model said that played the agent's user; they have no time.
func (s shown) replies(c conversation.Conversation) string {
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

// title begins a section.
func (s shown) title(of string) string { return "\n" + s.style.Strong(of) + "\n" }

func (s shown) step(step conversation.Step, told marks) string {
	switch {
	case step.Turn != nil:
		return s.turn(step.Turn)
	case step.Own != nil:
		return s.own(step.Own)
	case step.Said != "":
		return "the agent says\n" + s.text("  ", step.Said)
	case step.Claim != nil:
		return fmt.Sprintf("%s  %s\n%s", s.style.Bad("TOLD, NEVER MADE"), s.line(step.Claim.Name), s.with(step.Claim.Arguments))
	}
	return s.call(step.Call, told)
}

// own is a use of a tool of the agent's own, which is the agent's word.
func (s shown) own(use *capture.Use) string {
	outcome, kind := s.style.Bad("without success"), s.style.Builtin
	if use.OK {
		outcome = s.style.Good("ok")
	}
	if use.Source == capture.SourceSkill {
		kind = s.style.Skill
	}
	out := fmt.Sprintf("%s  %s, as the agent tells\n%s", kind(use.Source+"  "+s.line(use.Tool)), outcome, s.with(use.Arguments))
	if result := results.ResultOf(*use); result != nil {
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

// turn is a model's answer: what it says, the tools it asks for, and what it was told of
// those that made no call on the wire.
func (s shown) turn(t *conversation.Turn) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s  %s\n", s.at(t.Start), s.style.Strong(fmt.Sprintf("model call %d", t.Seq)), strings.Join(s.turnFacts(t), "  "))
	out.WriteString(s.text("  ", t.Text))
	if t.Problem != "" {
		out.WriteString("  " + s.line(t.Problem) + "\n")
	}
	for _, use := range t.Uses {
		fmt.Fprintf(&out, "  asks for %s %s\n", s.line(use.Name), s.line(string(use.Arguments)))
		switch {
		case use.Call > 0:
			fmt.Fprintf(&out, "    is call %d\n", use.Call)
		case use.Result == nil:
			out.WriteString("    was never told a result\n")
		default:
			if use.Result.Error {
				out.WriteString("    was told of an error\n")
			}
			out.WriteString(s.text("    ", use.Result.Text))
		}
	}
	return out.String()
}

func (s shown) turnFacts(t *conversation.Turn) []string {
	var facts []string
	if t.Model != "" {
		facts = append(facts, s.line(t.Model))
	}
	if t.Outcome != evidence.ModelOK {
		facts = append(facts, s.style.Bad(s.line(t.Outcome)))
	}
	if u := t.Usage; u != nil {
		in := fmt.Sprintf("%d tokens in", u.Input)
		if u.Cached > 0 {
			in += fmt.Sprintf(" (%d cached)", u.Cached)
		}
		facts = append(facts, fmt.Sprintf("%s, %d out", in, u.Output))
	}
	return append(facts, elapsed(t.Start, t.End))
}

func elapsed(start, end time.Time) string {
	if end.Before(start) {
		return "no end"
	}
	return end.Sub(start).Round(time.Millisecond).String()
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
