package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/conversation"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/results"
)

// conversation is a trial as it went.
func (s shown) conversation(c conversation.Conversation) []byte {
	var out bytes.Buffer
	class := c.Verdicts.Class.With(c.Verdicts.Reason)
	if class == "" {
		class = c.Trial.Class.With(c.Trial.Reason)
	}
	fmt.Fprintf(&out, "%s/%d  %s  executor %s\n", s.line(c.Trial.Task), c.Trial.Number, s.line(class), s.line(c.Trial.Executor))
	out.WriteString(s.text("  ", cmp.Or(c.Verdicts.Message, c.Trial.Message)))
	if !c.Gateway {
		out.WriteString("no model gateway was in the way: what models were asked is not known\n")
	}
	out.WriteString("\nprompt\n" + s.text("  ", c.Trial.Prompt))
	for _, step := range c.Steps {
		out.WriteString("\n" + s.step(step, c.Gateway))
	}
	out.WriteString("\nfinal output\n" + s.text("  ", c.Trial.FinalOutput))
	out.WriteString(s.section("told otherwise by the agent", c.Told))
	out.WriteString(s.section("missing", c.Gaps))
	out.WriteString(s.verdicts(c.Verdicts))
	return out.Bytes()
}

func (s shown) step(step conversation.Step, gateway bool) string {
	switch {
	case step.Turn != nil:
		return s.turn(step.Turn)
	case step.Own != nil:
		return s.own(step.Own)
	case step.Said != "":
		return "the agent says\n" + s.text("  ", step.Said)
	case step.Claim != nil:
		return fmt.Sprintf("TOLD, NEVER MADE  %s\n%s", s.line(step.Claim.Name), s.with(step.Claim.Arguments))
	}
	return s.call(step.Call, gateway)
}

// own is a use of a tool of the agent's own, which is the agent's word.
func (s shown) own(use *capture.Use) string {
	outcome := "without success"
	if use.OK {
		outcome = "ok"
	}
	out := fmt.Sprintf("%s  %s  %s, as the agent tells\n%s", use.Source, s.line(use.Tool), outcome, s.with(use.Arguments))
	if result := results.ResultOf(*use); result != nil {
		out += s.text("  ", result.Content)
	}
	return out
}

func (s shown) with(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		return ""
	}
	return "  with " + s.line(string(arguments)) + "\n"
}

// turn is a model's answer: what it says, the tools it asks for, and what it was told of
// those that made no call on the wire.
func (s shown) turn(t *conversation.Turn) string {
	var out strings.Builder
	fmt.Fprintf(&out, "model call %d  %s\n", t.Seq, strings.Join(s.turnFacts(t), "  "))
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
		facts = append(facts, s.line(t.Outcome))
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

// call is a tool call on the wire.
func (s shown) call(call *evidence.Call, gateway bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "call %d  %s of %s  %s  %s%s\n", call.Seq, s.line(call.Tool), s.line(call.Server),
		s.line(string(call.Outcome)), elapsed(call.Start, call.End), askedBy(call, gateway))
	out.WriteString(s.with(call.Arguments))
	out.WriteString(s.text("  ", resultText(call)))
	return out.String()
}

func askedBy(call *evidence.Call, gateway bool) string {
	switch {
	case !gateway:
		return ""
	case call.Origin == evidence.OriginModel:
		return fmt.Sprintf("  asked for by model call %d", call.Turn)
	case call.Origin == evidence.OriginOutOfBand:
		return "  OUT OF BAND: no model asked for it"
	}
	return "  whether a model asked for it is not known"
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

func (s shown) section(title string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	out := "\n" + title + "\n"
	for _, line := range lines {
		out += "  " + s.line(line) + "\n"
	}
	return out
}

func (s shown) verdicts(v evidence.Verdicts) string {
	var out strings.Builder
	out.WriteString("\nverdicts\n")
	for _, one := range v.Verdicts {
		fmt.Fprintf(&out, "  %s  %s  %.2f\n%s", s.line(one.Name), s.line(string(one.Result)), one.Score, s.text("    ", one.Feedback))
	}
	if len(v.Verdicts) == 0 {
		out.WriteString("  none\n")
	}
	return out.String()
}
