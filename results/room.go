package results

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Bounds of what results.json takes of what calls and agents said; evidence has the rest.
const (
	maxText     = 64 << 10 // bytes of a value
	maxOfTrial  = 32 << 20 // bytes of all values of a trial
	alwaysTaken = 256      // bytes of a value that are not worth a mark in its place
	maxNested   = 128      // objects and arrays in each other: readers of JSON have limits of their own
)

// room is what there is left for values of a trial.
type room struct {
	dir  string // of the trial, in the run's directory
	left int
}

func roomFor(trial Trial) *room { return &room{dir: trial.Path, left: maxOfTrial} }

// place is where a value is whole: a line of a file, or another of its parts.
type place struct {
	file   string
	part   string // "line", "tool use"
	number int
	frame  int64 // 0 for none
}

// argumentsAt is where a use's arguments are whole.
func argumentsAt(use capture.Use) place {
	if use.Call == nil {
		return place{file: evidence.TranscriptFile, part: "tool use", number: use.Told}
	}
	return place{file: evidence.CallsFile, part: "line", number: use.Call.Seq, frame: use.Call.RequestFrame}
}

// resultAt is where what came of a use is whole.
func resultAt(use capture.Use) place {
	at := argumentsAt(use)
	if use.Call != nil {
		at.frame = use.Call.ResponseFrame
	}
	return at
}

// take is how many bytes of a value are to be kept: all, or as far as there is room.
func (r *room) take(size int) int {
	if size <= alwaysTaken {
		return size
	}
	kept := min(size, maxText, r.left)
	r.left -= kept
	return kept
}

// text is s, or its beginning and what says where the rest is.
func (r *room) text(s string, at place) string {
	kept := r.take(len(s))
	if kept == len(s) {
		return s
	}
	begins := strings.ToValidUTF8(s[:kept], "")
	return fmt.Sprintf("%s\n[%s]", begins, r.leftOut(len(s)-len(begins), at))
}

// json is raw, or in its place an object of where it is and how its text begins.
func (r *room) json(raw json.RawMessage, at place) json.RawMessage {
	kept := r.take(len(raw))
	if deep := jsontext.Depth(raw) > maxNested; deep {
		kept = min(kept, alwaysTaken)
	} else if kept == len(raw) {
		return raw
	}
	begins := strings.ToValidUTF8(string(raw[:kept]), "")
	short, _ := evidence.Marshal(struct { // two strings
		LeftOut string `json:"left_out"`
		Begins  string `json:"begins"`
	}{r.leftOut(len(raw)-len(begins), at), begins})
	return short
}

// leftOut says how much is left out and where it is.
func (r *room) leftOut(bytes int, at place) string {
	said := fmt.Sprintf("%d bytes left out; whole in %s, %s %d", bytes, path.Join(r.dir, at.file), at.part, at.number)
	if at.frame > 0 {
		said += fmt.Sprintf(", and frame %d", at.frame)
	}
	return said
}

// result is what came of a tool, as far as there is room; nil for nothing.
func (r *room) result(result *ToolResult, at place) *ToolResult {
	if result != nil {
		result.Content = r.text(result.Content, at)
		if result.DetailedContent != "" {
			result.DetailedContent = r.text(result.DetailedContent, at)
		}
	}
	return result
}

// transcript is what the agent tells, as far as there is room. It begins with the prompt,
// which few agents tell.
func (r *room) transcript(trial Trial) (all []TranscriptEvent) {
	if len(trial.Transcript) > 0 && trial.Prompt != "" && trial.Transcript[0].Type != evidence.UserMessage {
		prompt := r.text(trial.Prompt, place{file: evidence.TrialFile, part: "line", number: 1})
		all = append(all, TranscriptEvent{TranscriptEvent: evidence.TranscriptEvent{Type: evidence.UserMessage, Content: prompt}})
	}
	for i, e := range trial.Transcript {
		at := place{file: evidence.TranscriptFile, part: "line", number: i + 1}
		e.Content, e.Message = r.text(e.Content, at), r.text(e.Message, at)
		e.Arguments = r.json(e.Arguments, at)
		told := Told(e)
		told.ToolResult = r.result(told.ToolResult, at)
		all = append(all, told)
	}
	return all
}

func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}
