package transcript

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/waza-isolate/waza/evidence"
)

// Writer writes events as JSON, one per line, as they happen. After a failed write it writes nothing; see
// [Writer.Err]. It is not safe for concurrent use.
type Writer struct {
	out   io.Writer
	calls int
	err   error
}

// NewWriter returns a Writer on out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: out}
}

// Prompt records a prompt.
func (w *Writer) Prompt(text string) {
	w.write(evidence.TranscriptEvent{Type: "user.message", Content: text})
}

// Say records a message of the agent.
func (w *Writer) Say(text string) {
	w.write(evidence.TranscriptEvent{Type: evidence.AssistantMessage, Content: text})
}

// Call is a tool call in progress.
type Call struct {
	writer *Writer
	id     string
	tool   string
}

// Start records the start of a call, with ids call-1, call-2 and so on.
func (w *Writer) Start(tool string, arguments json.RawMessage) Call {
	w.calls++
	return w.StartAs(fmt.Sprintf("call-%d", w.calls), tool, arguments)
}

// StartAs records the start of a call with the given id, which must be unique.
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

// Err returns the first write error.
func (w *Writer) Err() error { return w.err }

func (w *Writer) write(e evidence.TranscriptEvent) {
	if w.err != nil {
		return
	}
	line, err := evidence.Marshal(e)
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("transcript: %w", err)
	}
}
