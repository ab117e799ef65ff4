package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/report/view"
)

// row returns the row of a step.
func (r *reading) row(step view.Step) Row {
	switch {
	case step.Turn != nil:
		return r.turnRow(step.Turn)
	case step.Call != nil:
		return r.callRow(step.Call)
	case step.Own != nil:
		return ownRow(step.Own)
	case step.Claim != nil:
		return claimRow(step.Claim)
	}
	row := Row{Kind: rowSaid, Source: sourceAgent, Who: "agent", What: "says", Preview: brief(step.Said, previewSize)}
	row.part("Text", evidence.TranscriptFile, step.Said, (*budget).markdown)
	return row
}

// turnRow returns the row of a model's response: its text, and the requests and results of
// uses that made no call on the wire.
func (r *reading) turnRow(t *view.Turn) Row {
	row := Row{
		Kind: rowTurn, Anchor: turnAnchor(t.Seq), At: offset(r.from, t.Start), Source: sourceModel,
		Who: "model", What: fmt.Sprintf("model call %d", t.Seq), Preview: brief(preview(t), previewSize),
		Took: lasted(t.Start, t.End),
	}
	if ended := t.Ended(); ended != "" {
		row.End, row.Failed = &Mark{"broke", ended, "fail"}, true
	}
	if t.Problem != "" {
		row.note(t.Problem)
	}
	if t.Model != "" {
		row.note(fmt.Sprintf("Model %s.", t.Model))
	}
	if tokens := t.Tokens(); tokens != "" {
		row.note(tokens + ".")
	}
	if t.Text != "" {
		row.part("Text", evidence.ModelsFile, t.Text, (*budget).markdown)
	}
	for _, use := range t.Uses {
		name := brief(use.Name, nameSize)
		row.note(strings.TrimSuffix(fmt.Sprintf("Asks for %s, which %s", name, use.Came()), ", which ")+".", use.Call)
		if use.Call > 0 {
			continue
		}
		row.part("Asks for "+name, evidence.ModelsFile, string(use.Arguments), (*budget).json)
		if use.Result != nil {
			row.part("Result of "+name+", as given to the model", evidence.ModelsFile, use.Result.Text, (*budget).either)
		}
	}
	return row
}

func preview(t *view.Turn) string {
	if t.Text != "" {
		return t.Text
	}
	var names []string
	for _, use := range t.Uses {
		names = append(names, use.Name)
	}
	if len(names) > 0 {
		return "asks for " + strings.Join(names, ", ")
	}
	return t.Problem
}

// ownRow returns the row of a use of the agent's own tool.
func ownRow(use *capture.Use) Row {
	end := Mark{"pass", "ok", "pass"}
	if !use.OK {
		end = Mark{"fail", view.NoSuccess, "fail"}
	}
	kind := rowBuiltin
	if use.Source == capture.SourceSkill {
		kind = rowSkill
	}
	row := Row{
		Kind: kind, Anchor: fmt.Sprintf("told-%d", use.Reported), Source: kind, Who: kind, What: brief(use.Tool, nameSize),
		Preview: brief(string(use.Arguments), previewSize), End: &end, Failed: !use.OK,
	}
	row.note(capital(view.AsReported) + "; no message shows it, and its time is not known.")
	if len(use.Arguments) > 0 {
		row.part("Arguments", evidence.TranscriptFile, string(use.Arguments), (*budget).json)
	}
	result, _ := use.Result.Raw() // not a call's result, so it is in memory
	if len(result) > 0 && result[0] == '"' {
		row.part("Result", evidence.TranscriptFile, jsontext.Text(result), (*budget).either)
	} else if len(result) > 0 {
		row.part("Result", evidence.TranscriptFile, string(result), (*budget).json)
	}
	return row
}

// claimRow returns the row of a reported call that was never made.
func claimRow(claim *evidence.Claim) Row {
	row := Row{
		Kind: rowClaim, Anchor: fmt.Sprintf("told-%d", claim.Number), Source: sourceAgent, Who: "claim", What: brief(claim.Name, nameSize),
		Preview: brief(string(claim.Arguments), previewSize), End: &Mark{"none", view.NeverMade, "warn"}, Failed: true,
	}
	row.part("Arguments, as reported", evidence.TranscriptFile, string(claim.Arguments), (*budget).json)
	return row
}

// isTextAlone reports whether a result contains only text, apart from isError, resultType and _meta.
func isTextAlone(result []byte) bool {
	for key := range jsontext.Members(result) {
		if !slices.Contains([]string{"content", "isError", "resultType", "_meta"}, key) {
			return false
		}
	}
	for block := range jsontext.Elements(jsontext.Member(result, "content")) {
		if jsontext.Word(jsontext.Member(block, "type")) != "text" {
			return false
		}
	}
	return true
}

// callRow returns the row of a call on the wire.
func (r *reading) callRow(call *evidence.Call) Row {
	end := outcomeOf(call.Outcome)
	row := Row{
		Kind: rowCall, Anchor: callAnchor(call.Seq), Number: fmt.Sprint(call.Seq), At: offset(r.from, call.Start),
		Source: r.sources[call.Server].Key, Lane: r.sources[call.Server].Lane, Who: brief(call.Server, nameSize), What: brief(call.Tool, nameSize), Preview: brief(string(call.Arguments), previewSize),
		End: &end, Took: lasted(call.Start, call.End), Failed: call.Outcome.Failed(),
	}
	for _, remark := range r.remarks[call.Seq] {
		if remark.Flag != "" {
			row.flag(flagKinds[remark.State], remark.Flag)
		}
		sentence := capital(remark.Text)
		if remark.More != "" {
			sentence += ": " + remark.More
		}
		row.note(sentence+".", remark.Call)
	}
	r.callTexts(&row, call)
	return row
}

// flagKinds are the colors of flags.
var flagKinds = map[view.State]string{view.Doubtful: "warn", view.Bad: "fail"}

// capital returns words with the first letter in upper case.
func capital(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + words[size:]
}

// callTexts adds a call's texts.
func (r *reading) callTexts(row *Row, call *evidence.Call) {
	const where = evidence.CallsFile
	if len(call.Arguments) > 0 {
		row.part("Arguments", where, string(call.Arguments), (*budget).json)
	}
	if len(call.Error) > 0 {
		row.part("Error", where, string(call.Error), (*budget).json)
	}
	result, err := call.Result.Raw()
	r.note(err)
	whole := func() string {
		again, _ := call.Result.Raw() // read again, so that rows hold no large results
		return string(again)
	}
	readable := func() string { return capture.Text(json.RawMessage(whole())) }
	switch text := capture.Text(result); {
	case len(result) == 0:
	case text == "":
		row.later("Result", where, whole, (*budget).json)
	case isTextAlone(result):
		row.later("Result", where, readable, (*budget).either)
	default:
		row.later("Result", where, readable, (*budget).either)
		row.later("Whole result", where, whole, (*budget).json)
		row.Parts[len(row.Parts)-1].Folded = true
	}
	if frames := r.frames.texts[call.Seq]; len(frames) > 0 {
		row.part(partFrames, evidence.FramesDir, strings.Join(frames, "\n\n"), (*budget).show)
		row.Parts[len(row.Parts)-1].Folded = true
	}
}

// frameSize is the number of bytes shown of a frame, whose texts are already in the row.
const frameSize = 4 << 10

// frames holds the frames of calls as text, within a limit.
type frames struct {
	left  int              // bytes
	texts map[int][]string // by call
}

func (f *frames) add(call *evidence.Call, frame evidence.Frame) {
	if f.left <= 0 {
		return
	}
	text := written(frame)
	if f.left -= len(text); f.left > 0 {
		f.texts[call.Seq] = append(f.texts[call.Seq], text)
	}
}

// framesOf reads the frames of the calls in steps as text, within the limit. It does not
// read frames before them, nor after them unless all is set.
func (r *reading) framesOf(steps []view.Step, all bool) error {
	r.frames = frames{left: r.most.Total, texts: map[int][]string{}}
	first, last := int64(math.MaxInt64), int64(0)
	of := view.Conversation{Steps: steps}.CallsByFrame()
	for seq := range of {
		first, last = min(first, seq), max(last, seq)
	}
	if last == 0 {
		return nil
	}
	for frame, err := range r.dir.FramesFrom(first) {
		if err != nil {
			return err
		}
		for _, call := range of[frame.Seq] {
			r.frames.add(call, frame)
		}
		if frame.Seq >= last && !all {
			break
		}
	}
	return nil
}

// written returns a line about a frame, and its bytes or their beginning.
func written(f evidence.Frame) string {
	to := "to the server"
	if f.Dir == evidence.ToClient {
		to = "to the agent"
	}
	head := fmt.Sprintf("frame %d, %s, %s", f.Seq, to, view.Bytes(int64(len(f.Raw))+f.Truncated))
	if f.Synthetic != "" {
		head += ", written by the runner: " + string(f.Synthetic)
	}
	raw := f.Raw
	if len(raw) > frameSize {
		raw = raw[:frameSize]
		head += fmt.Sprintf(", of which the first %s are here", view.Bytes(frameSize))
	}
	return head + "\n" + string(raw)
}
