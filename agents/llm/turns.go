package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// work runs until the model calls no tool.
func (a *agent) work(ctx context.Context) error {
	for turn := 1; ; turn++ {
		answer, err := a.model.ask(ctx)
		if err != nil {
			return err
		}
		if answer.Text != "" {
			a.texts = append(a.texts, answer.Text)
			a.transcript.Say(answer.Text)
		}
		if len(answer.Calls) == 0 {
			return answer.whole()
		}
		if turn == a.turns {
			return fmt.Errorf("%w: it has had its %d turns (config.llm.max_turns) and asks for tools again", ErrTurns, turn)
		}
		if err := a.use(ctx, answer.Calls); err != nil {
			return err
		}
	}
}

// use runs the tools that an answer calls, in order, and adds the results to the conversation.
func (a *agent) use(ctx context.Context, calls []toolCall) error {
	var pictures []picture
	for _, call := range calls {
		r := a.run(ctx, call)
		if err := ctx.Err(); err != nil {
			return err
		}
		a.model.addResult(call.ID, r.shown())
		pictures = append(pictures, r.pictures...)
	}
	a.model.addPictures(pictures)
	return nil
}

// run runs one tool. A failure is a result for the model too.
func (a *agent) run(ctx context.Context, call toolCall) result {
	tool, known := a.tools.byName[call.Function.Name]
	reported := call.Function.Name
	if known && tool.reported != "" {
		reported = tool.reported
	}
	arguments, err := call.Function.Arguments.object()
	event := a.transcript.StartAs(call.ID, reported, call.Function.Arguments.reported())
	r := result{}
	switch {
	case !known:
		r = failure(fmt.Sprintf("there is no tool %s", quote(call.Function.Name)))
	case err != nil:
		r = failure(err.Error())
	default:
		r = tool.run(ctx, call.ID, arguments)
	}
	event.Complete(!r.failed, r.report())
	return r
}

// result is the result of a tool.
type result struct {
	text     string
	failed   bool
	pictures []picture
	raw      json.RawMessage // for the transcript; if nil, the text is used
}

func failure(why string) result { return result{text: why, failed: true} }

// maxShown is the maximum number of bytes of a tool's result that the model gets.
const maxShown = 256 << 10

// shown returns the text for the model.
func (r result) shown() string {
	text := head(r.text, maxShown)
	if r.failed {
		return "Error: " + text
	}
	return text
}

// maxReport is the maximum size, in bytes, of a result that the transcript records completely.
const maxReport = 4 << 20

// report returns the result for the transcript.
func (r result) report() json.RawMessage {
	if r.raw != nil && len(r.raw) <= maxReport {
		return r.raw
	}
	key := "content"
	if r.failed {
		key = "error"
	}
	return encode(map[string]string{key: head(r.text, maxShown)})
}

// head returns the beginning of a text, and the number of bytes left out.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	kept := strings.ToValidUTF8(text[:limit], "")
	return fmt.Sprintf("%s\n[%d more bytes are left out]", kept, len(text)-len(kept))
}

// quote quotes untrusted text for a message.
func quote(said string) string { return text.Quote(said, 300) }

// encode returns a value as JSON, or nil if it cannot be encoded.
func encode(value any) json.RawMessage {
	raw, err := evidence.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}

// systemPrompt returns the system prompt.
func systemPrompt(o input.Input) string {
	parts := []string{"You are an agent. Do what the user asks, with the tools that you have. Nobody answers questions on the way: decide yourself. When you are done, say the result and use no tool."}
	if o.Has(input.ToolsFiles) || o.Has(input.ToolsShell) {
		parts = append(parts, "Your workspace is "+o.Workspace+"; paths are relative to "+start(o)+".")
	}
	if len(o.Context) > 0 {
		parts = append(parts, "The task's context, as JSON:\n"+string(o.Context))
	}
	if len(o.Skills) > 0 {
		lines := []string{"These skills are there: instructions for kinds of work. Where one fits, read it with the tool skill before you begin."}
		for _, s := range o.Skills {
			lines = append(lines, fmt.Sprintf("- %s: %s", s.Name, strings.Join(strings.Fields(s.Description), " ")))
		}
		parts = append(parts, strings.Join(lines, "\n"))
	}
	if o.System != "" {
		parts = append(parts, o.System)
	}
	return strings.Join(parts, "\n\n")
}

// start returns the directory that paths are relative to.
func start(o input.Input) string { return cmp.Or(o.Dir, o.Workspace) }
