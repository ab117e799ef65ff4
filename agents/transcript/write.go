package transcript

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/waza-isolate/waza/evidence"
)

// Writer writes events as JSON, one a line, each when it happens. The first
// failed write is remembered and ends the writing; see [Writer.Err]. It is not
// safe for concurrent use.
type Writer struct {
	events *json.Encoder
	calls  int
	err    error
}

// NewWriter returns a Writer on out.
func NewWriter(out io.Writer) *Writer {
	events := json.NewEncoder(out)
	events.SetEscapeHTML(false)
	return &Writer{events: events}
}

// Prompt records what the agent was asked.
func (w *Writer) Prompt(text string) {
	w.write(evidence.TranscriptEvent{Type: "user.message", Content: text})
}

// Say records what the agent answered.
func (w *Writer) Say(text string) {
	w.write(evidence.TranscriptEvent{Type: evidence.AssistantMessage, Content: text})
}

// Call is a tool call that was started.
type Call struct {
	writer *Writer
	id     string
	tool   string
}

// Start records the start of a call. Ids count from call-1.
func (w *Writer) Start(tool string, arguments json.RawMessage) Call {
	w.calls++
	return w.StartAs(fmt.Sprintf("call-%d", w.calls), tool, arguments)
}

// StartAs records the start of a call under an id that no other call has.
func (w *Writer) StartAs(id, tool string, arguments json.RawMessage) Call {
	call := Call{writer: w, id: id, tool: tool}
	w.write(evidence.TranscriptEvent{
		Type: "tool.execution_start", ToolCallID: call.id, ToolName: tool, Arguments: arguments,
	})
	return call
}

// Complete records the end of a call.
func (c Call) Complete(success bool, result json.RawMessage) {
	c.writer.write(evidence.TranscriptEvent{
		Type: "tool.execution_complete", ToolCallID: c.id, ToolName: c.tool,
		Success: &success, ToolResult: result,
	})
}

// Err returns the first error of any write.
func (w *Writer) Err() error { return w.err }

func (w *Writer) write(e evidence.TranscriptEvent) {
	if w.err != nil {
		return
	}
	if err := w.events.Encode(e); err != nil {
		w.err = fmt.Errorf("transcript: %w", err)
	}
}
