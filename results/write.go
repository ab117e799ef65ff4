package results

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"iter"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Write writes results.json. It calls trial to read each trial again, so that only one is in memory at a
// time. It returns errors of trial and w.
func (r Results) Write(w io.Writer, trial func(task string, number int) (Trial, error)) error {
	buffered := bufio.NewWriter(w)
	out := jsonWriter{w: buffered}
	out.open(struct {
		Results
		Tasks *struct{} `json:"tasks,omitempty"` // replaces the tasks of Results, which follow
	}{Results: r}, "tasks")
	for _, t := range r.Tasks {
		out.item()
		out.open(struct {
			Task
			Runs *struct{} `json:"runs,omitempty"` // replaces the runs of Task, which follow
		}{Task: t}, "runs")
		for _, run := range t.Runs {
			whole, err := trial(t.TestID, run.RunNumber)
			if err != nil {
				return err
			}
			out.item()
			if err := out.run(run, whole); err != nil {
				return err
			}
		}
		out.close()
	}
	out.close()
	out.text("\n")
	if out.err != nil {
		return out.err
	}
	return buffered.Flush()
}

// run writes the result of [RunResult.Complete] with only one item of its lists in memory at a time, since
// together they may take many megabytes. It encodes the rest with a random mark in place of each list's
// items.
func (j *jsonWriter) run(r RunResult, trial Trial) error {
	used, err := uses(trial)
	if err != nil {
		return err
	}
	room, mark := roomFor(trial), rand.Text()
	if len(used) > 0 {
		r.SessionDigest.ToolCalls, r.ToolEvents = []ToolCall{{Name: mark}}, []ToolEvent{{ToolName: mark}}
	}
	if len(trial.Transcript) > 0 {
		r.Transcript = []TranscriptEvent{{TranscriptEvent: evidence.TranscriptEvent{Type: mark}}}
	}
	r.FinalOutput = trial.FinalOutput
	rest := string(j.encode(r))
	if len(used) > 0 {
		rest = list(j, rest, mark, room.toolCalls(used))
		rest = list(j, rest, mark, room.toolEvents(used))
	}
	if len(trial.Transcript) > 0 {
		rest = list(j, rest, mark, room.transcript(trial))
	}
	j.text(rest)
	return room.err
}

// list writes text up to the first object that contains mark, writes items instead of that object, and
// returns the text after it.
func list[T any](j *jsonWriter, text, mark string, items iter.Seq[T]) string {
	at := strings.Index(text, mark)
	start := strings.LastIndexByte(text[:at], '{')
	indent := text[strings.LastIndexByte(text[:start], '\n')+1 : start]
	j.text(text[:start])
	own, separator := j.indent, ""
	j.indent = indent
	for item := range items {
		j.text(separator)
		j.value(item)
		separator = ",\n" + indent
	}
	j.indent = own
	_, rest, _ := strings.Cut(text[at:], "\n"+indent+"}")
	return rest
}

// jsonWriter writes objects that end with a list, piece by piece, with the layout of
// [evidence.MarshalIndent]. After an error it does nothing.
type jsonWriter struct {
	w      io.Writer
	indent string
	items  []int // number of items written to each open list
	err    error
}

func (j *jsonWriter) write(b []byte) {
	if j.err == nil {
		_, j.err = j.w.Write(b)
	}
}

func (j *jsonWriter) text(s string) { j.write([]byte(s)) }

// encode returns v as JSON; lines after the first are indented. Values from other programs are each on one
// line: indented, a few kilobytes with deep nesting would become hundreds of megabytes.
func (j *jsonWriter) encode(v any) []byte {
	compact, err := evidence.Marshal(v)
	if err != nil && j.err == nil {
		j.err = err
	}
	laid := jsontext.Indent(compact, "args", "result", "arguments")
	return bytes.ReplaceAll(laid, []byte("\n"), []byte("\n"+j.indent))
}

func (j *jsonWriter) value(v any) { j.write(j.encode(v)) }

// open writes head, an object with at least one member, and begins a list as its last member.
func (j *jsonWriter) open(head any, list string) {
	j.write(bytes.TrimSuffix(j.encode(head), []byte("\n"+j.indent+"}")))
	j.text(",\n" + j.indent + `  "` + list + `": [`)
	j.indent += "    "
	j.items = append(j.items, 0)
}

// item begins another item of the list.
func (j *jsonWriter) item() {
	last := len(j.items) - 1
	if j.items[last] > 0 {
		j.text(",")
	}
	j.items[last]++
	j.text("\n" + j.indent)
}

// close ends the list and the object that it is in.
func (j *jsonWriter) close() {
	last := len(j.items) - 1
	j.indent = j.indent[:len(j.indent)-len("    ")]
	if j.items[last] > 0 {
		j.text("\n" + j.indent + "  ")
	}
	j.items = j.items[:last]
	j.text("]\n" + j.indent + "}")
}
