package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/report/conversation"
	"github.com/waza-isolate/waza/report/view"
)

// row is a step without its texts.
func (r *reading) row(step conversation.Step) Row {
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
	return Row{Kind: rowSaid, Source: sourceAgent, Who: "agent", What: "says", Preview: brief(step.Said, previewSize)}
}

// texts adds a step's texts.
func (r *reading) texts(row *Row, step conversation.Step) {
	switch {
	case step.Turn != nil:
		r.turnTexts(row, step.Turn)
	case step.Call != nil:
		r.callTexts(row, step.Call)
	case step.Own != nil:
		r.ownTexts(row, step.Own)
	case step.Claim != nil:
		row.part("Arguments, as told", evidence.TranscriptFile, r.room.json(step.Claim.Arguments))
	default:
		row.part("Text", evidence.TranscriptFile, r.room.show(step.Said))
	}
}

// turnRow is a model's answer.
func (r *reading) turnRow(t *conversation.Turn) Row {
	row := Row{
		Kind: rowTurn, Anchor: turnAnchor(t.Seq), At: offset(r.from, t.Start), Source: sourceModel,
		Who: "model", What: fmt.Sprintf("turn %d", t.Seq), Preview: brief(preview(t), previewSize),
		Took: lasted(t.Start, t.End), start: t.Start,
	}
	if t.Outcome != evidence.ModelOK {
		row.End, row.Failed = &Mark{"broke", strings.ReplaceAll(t.Outcome, "_", " "), "fail"}, true
	}
	if t.Problem != "" {
		row.note(t.Problem)
	}
	if t.Model != "" {
		row.note(fmt.Sprintf("Model %s.", t.Model))
	}
	if u := t.Usage; u != nil {
		sentence := fmt.Sprintf("%s tokens in, %s out.", view.Number(u.Input), view.Number(u.Output))
		if u.Cached > 0 {
			sentence = fmt.Sprintf("%s tokens in, %s of them cached; %s out.", view.Number(u.Input), view.Number(u.Cached), view.Number(u.Output))
		}
		row.note(sentence)
	}
	for _, use := range t.Uses {
		switch {
		case use.Call > 0:
			row.note(fmt.Sprintf("Asks for %s, which is call %d.", brief(use.Name, nameSize), use.Call), use.Call)
		case use.Result == nil:
			row.note(fmt.Sprintf("Asks for %s, and was never told a result.", use.Name))
		case use.Result.Error:
			row.note(fmt.Sprintf("Asks for %s, and was told of an error.", use.Name))
		default:
			row.note(fmt.Sprintf("Asks for %s.", use.Name))
		}
	}
	return row
}

func preview(t *conversation.Turn) string {
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

// turnTexts are what the model said, and of uses that made no call what it asked for and
// was told.
func (r *reading) turnTexts(row *Row, t *conversation.Turn) {
	if t.Text != "" {
		row.part("Text", evidence.ModelsFile, r.room.show(t.Text))
	}
	for _, use := range t.Uses {
		if use.Call > 0 {
			continue
		}
		row.part("Asks for "+brief(use.Name, nameSize), evidence.ModelsFile, r.room.json(use.Arguments))
		if use.Result != nil {
			row.part("Result of "+brief(use.Name, nameSize)+", as told to the model", evidence.ModelsFile, r.room.either(use.Result.Text))
		}
	}
}

// ownRow is a use of a tool of the agent's own.
func ownRow(use *capture.Use) Row {
	end := Mark{"pass", "ok", "pass"}
	if !use.OK {
		end = Mark{"fail", "no success", "fail"}
	}
	kind := rowBuiltin
	if use.Source == capture.SourceSkill {
		kind = rowSkill
	}
	row := Row{
		Kind: kind, Anchor: fmt.Sprintf("told-%d", use.Told), Source: kind, Who: kind, What: brief(use.Tool, nameSize),
		Preview: brief(string(use.Arguments), previewSize), End: &end, Failed: !use.OK,
	}
	row.note("As the agent tells it; it is on no wire, and its time is not known.")
	return row
}

func (r *reading) ownTexts(row *Row, use *capture.Use) {
	const where = evidence.TranscriptFile
	if len(use.Arguments) > 0 {
		row.part("Arguments", where, r.room.json(use.Arguments))
	}
	if len(use.Result) == 0 {
		return
	}
	if use.Result[0] == '"' {
		row.part("Result", where, r.room.either(jsontext.Text(use.Result)))
		return
	}
	row.part("Result", where, r.room.json(use.Result))
}

// claimRow is a call that the agent tells of and never made.
func claimRow(claim *evidence.Claim) Row {
	row := Row{
		Kind: rowClaim, Anchor: fmt.Sprintf("told-%d", claim.Number), Source: sourceAgent, Who: "claim", What: brief(claim.Name, nameSize),
		Preview: brief(string(claim.Arguments), previewSize), End: &Mark{"none", "never made", "warn"}, Failed: true,
	}
	row.note("The agent tells of this call, and never made it.")
	return row
}

// isTextAlone says whether a result holds its text and nothing else worth a look.
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
