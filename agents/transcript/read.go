// Package transcript reads JSON lines in which an agent reports what it does, and maps them to
// waza's events by configurable paths. It also writes such events for the built-in agents.
//
// It is pure, and does not verify the agent's reports: actual calls are captured elsewhere.
// Input is not trusted: lines are limited in size and held only once in memory, and those that
// cannot be parsed are reported and skipped.
package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// maxLine is the maximum length of a line in bytes.
const maxLine = 8 << 20

// maxUnread is the maximum number of unparsable lines that are described.
const maxUnread = 10

// Report describes a transcript.
type Report struct {
	Events  int
	Ignored int      // lines that are not JSON objects, such as other output
	Unread  int      // lines that could not be parsed
	Why     []string // the errors of the first unparsable lines
	Torn    bool     // the last line is truncated
}

func (r *Report) unread(line int, format string, args ...any) {
	if r.Unread++; len(r.Why) < maxUnread {
		r.Why = append(r.Why, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
}

// Read reads a transcript to its end and calls emit for each event. It stops if emit returns an error. An
// event's values are valid until emit returns. [Source.Problems] of s must be empty.
func (s Source) Read(in io.Reader, emit func(evidence.TranscriptEvent) error) (Report, error) {
	r := reading{emit: emit}
	lines := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		line, whole, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return r.report, err
		}
		last := err != nil
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = jsontext.TrimSpace(line)
		switch {
		case !whole:
			r.report.unread(number, "longer than %d bytes", maxLine)
		case len(line) == 0:
		case line[0] != '{':
			r.report.Ignored++
		case !jsontext.Valid(line) && last:
			r.report.Torn = true
		case !jsontext.Valid(line):
			r.report.unread(number, "starts like a JSON object but is not one")
		default:
			if err := r.line(s, line, number); err != nil {
				return r.report, err
			}
		}
		if last {
			return r.report, r.endMessage()
		}
	}
}

// readLine reads a line. It skips a line that is too long. With the last line, it returns io.EOF.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= maxLine; whole {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, whole, err
		}
	}
}

var errNoName = errors.New("a tool without a name")

// event returns the event that a rule gives for a line, or for an item of the line's list.
func (r Rule) event(from []byte) (evidence.TranscriptEvent, error) {
	switch r.Type {
	case ToolStart:
		name := cmp.Or(r.Tool, scalar(lookup(from, r.Name)))
		if name == "" {
			return evidence.TranscriptEvent{}, errNoName
		}
		if server := scalar(lookup(from, r.Server)); server != "" {
			name = "mcp__" + server + "__" + name
		}
		return evidence.TranscriptEvent{
			Type: "tool.execution_start", ToolCallID: scalar(lookup(from, r.ID)), ToolName: name,
			Arguments: unpacked(lookup(from, r.Arguments)),
		}, nil
	case ToolEnd:
		return evidence.TranscriptEvent{
			Type: "tool.execution_complete", ToolCallID: scalar(lookup(from, r.ID)),
			Success: r.success(from), ToolResult: lookup(from, r.Result),
		}, nil
	case Usage:
		return evidence.TranscriptEvent{Type: evidence.AssistantUsage, Usage: r.usage(from)}, nil
	}
	return evidence.TranscriptEvent{Type: evidence.AssistantMessage, Content: content(lookup(from, r.Content))}, nil
}

// usage returns the tokens in the line, or nil.
func (r Rule) usage(from []byte) *dialect.Usage {
	input, some := sum(from, r.Input)
	output, more := sum(from, r.Output)
	if !some && !more {
		return nil
	}
	return &dialect.Usage{Input: input, Output: output}
}

// sum adds the integers at paths, and reports whether there are any.
func sum(from []byte, paths []string) (total int64, some bool) {
	for _, path := range paths {
		if n, err := strconv.ParseInt(string(lookup(from, path)), 10, 64); err == nil && n >= 0 && total+n >= 0 {
			total, some = total+n, true
		}
	}
	return total, some
}

// success returns whether the tool succeeded, or nil if the line does not say so.
func (r Rule) success(from []byte) *bool {
	var ok bool
	switch {
	case r.Error != "":
		failed := string(lookup(from, r.Error))
		ok = failed == "" || failed == "null" || failed == "false" || failed == `""`
	case len(r.OK) > 0 && hasAt(from, r.OK):
		ok = has(from, r.OK)
	default:
		return nil
	}
	return &ok
}

// unpacked returns the JSON object in arguments that are a string containing one, and other arguments
// unchanged.
func unpacked(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '"' {
		return raw
	}
	inner := jsontext.TrimSpace([]byte(jsontext.Text(raw)))
	if bytes.HasPrefix(inner, []byte("{")) && jsontext.Valid(inner) {
		return inner
	}
	return raw
}

// content returns a message's text: a string, or the text of its blocks.
func content(raw []byte) string {
	if text := jsontext.Text(raw); text != "" {
		return text
	}
	var out []byte
	for block := range jsontext.Elements(raw) {
		text := jsontext.Text(lookup(block, "text"))
		if len(out) > 0 && text != "" {
			out = append(out, '\n')
		}
		out = append(out, text...)
	}
	return string(out)
}

// reading is a transcript being read.
type reading struct {
	report Report
	emit   func(evidence.TranscriptEvent) error
	pieces []byte                // pieces of a message that may continue
	totals map[int]dialect.Usage // running totals, by the index of their rule
}

// since returns the increase of a running total since the last one. If the total is smaller, a new
// conversation has begun.
func (r *reading) since(rule int, total dialect.Usage) *dialect.Usage {
	before := r.totals[rule]
	if r.totals == nil {
		r.totals = map[int]dialect.Usage{}
	}
	r.totals[rule] = total
	if total.Input < before.Input || total.Output < before.Output {
		return &total
	}
	return &dialect.Usage{Input: total.Input - before.Input, Output: total.Output - before.Output}
}

func (r *reading) line(s Source, line []byte, number int) error {
	if s.Format == FormatWaza {
		var event evidence.TranscriptEvent
		if err := jsontext.Unmarshal(line, &event); err != nil {
			r.report.unread(number, "%v", err)
			return nil
		}
		return r.send(event)
	}
	for i, rule := range s.Events {
		for found := range rule.in(line) {
			event, err := rule.event(found)
			if rule.Total && event.Usage != nil {
				event.Usage = r.since(i, *event.Usage)
			}
			switch {
			case err != nil:
				r.report.unread(number, "events[%d]: %v", i, err)
			case rule.Type == Message && event.Content == "", rule.Type == Usage && event.Usage == nil: // empty
			case rule.Joined:
				r.piece(event.Content, number)
			default:
				if err := r.send(event); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// piece appends a piece to a message.
func (r *reading) piece(text string, line int) {
	if len(r.pieces)+len(text) > maxLine {
		r.report.unread(line, "a message longer than %d bytes", maxLine)
		return
	}
	r.pieces = append(r.pieces, text...)
}

// send emits an event. If the event ends a message, the message is emitted first.
func (r *reading) send(event evidence.TranscriptEvent) error {
	if err := r.endMessage(); err != nil {
		return err
	}
	if event.Type != evidence.AssistantUsage { // usage events are not counted
		r.report.Events++
	}
	return r.emit(event)
}

func (r *reading) endMessage() error {
	if len(r.pieces) == 0 {
		return nil
	}
	text := string(r.pieces)
	r.pieces = r.pieces[:0]
	r.report.Events++
	return r.emit(evidence.TranscriptEvent{Type: evidence.AssistantMessage, Content: text})
}
