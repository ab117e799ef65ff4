package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

func uses(trial Trial) ([]capture.Use, error) {
	var tools map[string][]string
	if trial.Narration != nil {
		tools = trial.Narration.Tools
	}
	paired := capture.Pair(tools, trial.Calls, trial.Transcript)
	return paired.Uses(), paired.Err()
}

func digest(trial Trial) SessionDigest {
	d := SessionDigest{ToolsUsed: []string{}, MCPServersUsed: []string{}, Errors: []string{}}
	used, _ := uses(trial) // Complete reports the error
	for _, use := range used {
		d.ToolCallCount++
		if name := use.FullName(); !slices.Contains(d.ToolsUsed, name) {
			d.ToolsUsed = append(d.ToolsUsed, name)
		}
		if use.Call != nil {
			d.MCPToolCalls++
			d.MCPServersUsed = append(d.MCPServersUsed, use.Call.Server)
		}
	}
	slices.Sort(d.MCPServersUsed)
	d.MCPServersUsed = slices.Compact(d.MCPServersUsed)
	switch trial.Verdicts.Class {
	case evidence.ClassTimeout, evidence.ClassAgentError, evidence.ClassServerError, evidence.ClassMiss, evidence.ClassInfra:
		d.Errors = append(d.Errors, cmp.Or(trial.Verdicts.Message, string(trial.Verdicts.Class)))
	}
	d.Usage = usageOf(trial)
	return d
}

// toolCalls yields the uses in the form that upstream waza's graders know, with values limited to the room.
func (r *room) toolCalls(uses []capture.Use) iter.Seq[ToolCall] {
	return func(yield func(ToolCall) bool) {
		for _, use := range uses {
			call := ToolCall{
				Name: use.FullName(), Source: use.Source, MCPServer: serverOf(use), Success: use.OK,
				Arguments: toolArguments(use, r), Result: shortResult(use, r),
			}
			if !yield(call) {
				return
			}
		}
	}
}

func shortResult(use capture.Use, room *room) *ToolResult {
	result, err := ResultOf(use)
	room.err = cmp.Or(room.err, err)
	return room.result(result, resultAt(use))
}

// toolEvents yields the uses with their arguments and results, limited to the room.
func (r *room) toolEvents(uses []capture.Use) iter.Seq[ToolEvent] {
	return func(yield func(ToolEvent) bool) {
		for i, use := range uses {
			if !yield(r.toolEvent(i+1, use)) {
				return
			}
		}
	}
}

func (r *room) toolEvent(number int, use capture.Use) ToolEvent {
	result, err := use.Result.Raw()
	r.err = cmp.Or(r.err, err)
	event := ToolEvent{
		Sequence: number, ToolCallID: use.ID, ToolName: use.FullName(),
		Source: use.Source, MCPServer: serverOf(use),
		Args: r.json(use.Arguments, argumentsAt(use)), Result: r.json(result, resultAt(use)), Success: use.OK,
	}
	if call := use.Call; call != nil {
		event.ToolCallID, event.Outcome = cmp.Or(jsontext.Text(call.ID), string(call.ID)), call.Outcome
		event.Turn, event.Origin = call.Turn, call.Origin
		event.DurationMS = milliseconds(call.Start, call.End)
		if !use.OK {
			event.Error = r.text(errorText(*call, result), resultAt(use))
		}
	}
	return event
}

func serverOf(use capture.Use) string {
	if use.Call == nil {
		return ""
	}
	return use.Call.Server
}

func toolArguments(use capture.Use, room *room) ToolArguments {
	field := func(name string) string { return room.text(textOf(use.Arguments, name), argumentsAt(use)) }
	return ToolArguments{
		Path: field("path"), FileText: field("file_text"), Command: field("command"), Description: field("description"), Skill: field("skill"),
	}
}

// ResultOf returns the result of a use in the format of upstream waza, which is text only. It returns nil if
// there is no result.
func ResultOf(use capture.Use) (*ToolResult, error) {
	raw, err := use.Result.Raw()
	if err != nil {
		return nil, err
	}
	if use.Call != nil && len(raw) > 0 {
		return &ToolResult{Content: capture.Text(raw)}, nil
	}
	return resultOf(raw), nil
}

// TranscriptEventOf returns an event of an agent's transcript in upstream waza's form.
func TranscriptEventOf(e evidence.TranscriptEvent) TranscriptEvent {
	return TranscriptEvent{TranscriptEvent: e, ToolResult: resultOf(e.ToolResult)}
}

// resultOf returns the text of a result in an agent's transcript: a string, an object with a string in
// content, an MCP result or only its content, or the JSON of anything else. It returns nil if there is no
// result.
func resultOf(raw json.RawMessage) *ToolResult {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	content, detailed := cmp.Or(jsontext.Text(raw), textOf(raw, "content"), capture.Text(raw), capture.BlockText(raw)), textOf(raw, "detailedContent")
	if content == "" && raw[0] != '"' && detailed == "" {
		content = string(raw)
	}
	return &ToolResult{Content: content, DetailedContent: detailed}
}

// CallText returns the text of a call's result, or the reason why there is none.
func CallText(call evidence.Call, result json.RawMessage) string {
	if call.Outcome == evidence.OutcomeOK {
		return cmp.Or(capture.Text(result), string(result))
	}
	return errorText(call, result)
}

// errorText returns the error of a call that did not succeed.
func errorText(call evidence.Call, result json.RawMessage) string {
	if len(call.Error) > 0 {
		return cmp.Or(textOf(call.Error, "message"), string(call.Error))
	}
	return cmp.Or(capture.Text(result), string(call.Outcome))
}

// textOf returns the string in a member of an object, or "" if there is none.
func textOf(object json.RawMessage, member string) string {
	return jsontext.Text(jsontext.Member(object, member))
}

// Limits on the contents of calls and transcripts in results.json; the evidence is complete.
const (
	maxText     = 64 << 10 // bytes of a value
	maxOfTrial  = 32 << 20 // bytes of all values of a trial
	alwaysTaken = 256      // bytes of a value that is never replaced by a mark
	maxNested   = 128      // nesting depth: JSON parsers have limits too
)

// room is the remaining space for the values of a trial.
type room struct {
	dir  string // directory of the trial, relative to the run's directory
	left int
	err  error // error from reading a result
}

func roomFor(trial Trial) *room { return &room{dir: trial.Path, left: maxOfTrial} }

// place is the place of the complete value in the evidence: a line of a file, or another part.
type place struct {
	file   string
	part   string // "line" or "tool use"
	number int
	frame  int64 // 0 if there is none
}

// argumentsAt returns the place of a use's complete arguments.
func argumentsAt(use capture.Use) place {
	if use.Call == nil {
		return place{file: evidence.TranscriptFile, part: "tool use", number: use.Reported}
	}
	return place{file: evidence.CallsFile, part: "line", number: use.Call.Seq, frame: use.Call.RequestFrame}
}

// resultAt returns the place of a use's complete result.
func resultAt(use capture.Use) place {
	at := argumentsAt(use)
	if use.Call != nil {
		at.frame = use.Call.ResponseFrame
	}
	return at
}

// take returns the number of bytes of a value to keep, and reduces the room by them.
func (r *room) take(size int) int {
	if size <= alwaysTaken {
		return size
	}
	kept := min(size, maxText, r.left)
	r.left -= kept
	return kept
}

// text returns s, or its beginning with a note that says where the rest is.
func (r *room) text(s string, at place) string {
	kept := r.take(len(s))
	if kept == len(s) {
		return s
	}
	begins := strings.ToValidUTF8(s[:kept], "")
	return fmt.Sprintf("%s\n[%s]", begins, r.leftOut(len(s)-len(begins), at))
}

// json returns raw or, if it is too large, an object with its beginning and its place.
func (r *room) json(raw json.RawMessage, at place) json.RawMessage {
	kept := r.take(len(raw))
	if deep := jsontext.Depth(raw) > maxNested; deep {
		kept = min(kept, alwaysTaken)
	} else if kept == len(raw) {
		return raw
	}
	begins := strings.ToValidUTF8(string(raw[:kept]), "")
	short, _ := evidence.Marshal(struct { // encoding two strings cannot fail
		LeftOut string `json:"left_out"`
		Begins  string `json:"begins"`
	}{r.leftOut(len(raw)-len(begins), at), begins})
	return short
}

// leftOut describes how much was omitted and where it is.
func (r *room) leftOut(bytes int, at place) string {
	said := fmt.Sprintf("%d bytes left out; whole in %s, %s %d", bytes, path.Join(r.dir, at.file), at.part, at.number)
	if at.frame > 0 {
		said += fmt.Sprintf(", and frame %d", at.frame)
	}
	return said
}

// result returns the result of a tool, limited to the room; nil for nil.
func (r *room) result(result *ToolResult, at place) *ToolResult {
	if result != nil {
		result.Content = r.text(result.Content, at)
		if result.DetailedContent != "" {
			result.DetailedContent = r.text(result.DetailedContent, at)
		}
	}
	return result
}

// transcript yields the agent's transcript, with values limited to the room. It begins with the prompt, which few
// agents write.
func (r *room) transcript(trial Trial) iter.Seq[TranscriptEvent] {
	return func(yield func(TranscriptEvent) bool) {
		if len(trial.Transcript) > 0 && trial.Prompt != "" && trial.Transcript[0].Type != evidence.UserMessage {
			prompt := r.text(trial.Prompt, place{file: evidence.TrialFile, part: "line", number: 1})
			if !yield(TranscriptEvent{TranscriptEvent: evidence.TranscriptEvent{Type: evidence.UserMessage, Content: prompt}}) {
				return
			}
		}
		for i, e := range trial.Transcript {
			at := place{file: evidence.TranscriptFile, part: "line", number: i + 1}
			e.Content, e.Message = r.text(e.Content, at), r.text(e.Message, at)
			e.Arguments = r.json(e.Arguments, at)
			reported := TranscriptEventOf(e)
			reported.ToolResult = r.result(reported.ToolResult, at)
			if !yield(reported) {
				return
			}
		}
	}
}
