package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/report/view"
)

// TrialOf returns the evidence of a trial of a compared run. Runs are counted from 0.
type TrialOf func(run int, task string, number int) (evidence.Dir, error)

// differing is a part of a task's trials that differs between runs.
type differing struct {
	Name  string
	Sides []side
}

// side is a differing part as it is in one run.
type side struct {
	Run    int // number of the run on the page
	Number int // number of the trial
	To     template.URL
	Mark   Mark
	Text   Text
	Pieces []Piece // of the text; those that other runs do not have are marked
	Gap    string  // why there is no text
}

// Limits on the details of tasks.
const (
	maxUnfolded  = 200     // tasks
	maxSide      = 8 << 10 // bytes of a text
	maxSides     = 4 << 20 // bytes of all texts
	maxSideCalls = 100
)

// wordDiffers is the filter word for tasks with details.
const wordDiffers = "different"

// Names of the parts.
const (
	partReason = "reason"
	partCalls  = "calls"
	partOutput = "final output"
)

// unfold compares the representative trials of each task, changed tasks first, and returns
// how many tasks are left out.
func (c *comparison) unfold(read TrialOf) (left int) {
	if read == nil {
		return 0
	}
	room := budget{text: maxSide, total: maxSides}
	tasks := make([]map[string]view.Task, len(c.Runs))
	for i, run := range c.Runs {
		tasks[i] = map[string]view.Task{}
		for _, task := range view.Tasks(run.Run.Results) {
			tasks[i][task.TestID] = task
		}
	}
	var order []*comparedTask
	for _, changed := range []bool{true, false} {
		for i := range c.Tasks {
			if (c.Tasks[i].Is != "|unchanged|") == changed {
				order = append(order, &c.Tasks[i])
			}
		}
	}
	for _, row := range order[:min(len(order), maxUnfolded)] {
		var trials []trialParts
		for i, run := range c.Runs {
			if one := tasks[i][row.ID].Example(); one != nil {
				t := trialParts{side: side{Run: run.Number(), Number: one.RunNumber, To: run.Links.Trial(row.ID, one.RunNumber), Mark: outcomeOf(one.Outcome)}}
				t.read(read, i, row.ID, one.Noted())
				trials = append(trials, t)
			}
		}
		row.compare(trials, &room)
	}
	return max(len(order)-maxUnfolded, 0)
}

// trialParts holds the parts of a trial.
type trialParts struct {
	side
	texts map[string]string // by name of the part
}

func (l *trialParts) read(read TrialOf, run int, task, why string) {
	l.texts = map[string]string{partReason: why}
	dir, err := read(run, task, l.Number)
	var talk view.Conversation
	if err == nil {
		talk, err = view.ReadConversation(dir)
	}
	if err != nil {
		l.Gap = brief(err.Error(), noteSize)
		return
	}
	l.texts[partCalls], l.texts[partOutput] = called(talk.Steps), talk.Trial.FinalOutput
}

// called returns a line with the outcome of each tool call.
func called(steps []view.Step) string {
	var lines []string
	for _, step := range steps {
		var row Row
		switch {
		case step.Call != nil:
			end := outcomeOf(step.Call.Outcome)
			row = Row{Who: step.Call.Server, What: step.Call.Tool, Preview: string(step.Call.Arguments), End: &end}
		case step.Own != nil:
			row = ownRow(step.Own)
		default:
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", brief(row.Who, nameSize), brief(row.What, nameSize), brief(row.Preview, previewSize), row.End.Word))
	}
	if more := len(lines) - maxSideCalls; more > 0 {
		lines = append(lines[:maxSideCalls], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// compare keeps the parts that differ between the representative trials of a task.
func (t *comparedTask) compare(trials []trialParts, room *budget) {
	for _, name := range []string{partReason, partCalls, partOutput} {
		same := !slices.ContainsFunc(trials, func(l trialParts) bool { return l.texts[name] != trials[0].texts[name] })
		if same {
			continue
		}
		part := differing{Name: name}
		for _, l := range trials {
			one := l.side
			if l.texts[name] != "" {
				one.Text, one.Gap = room.show(l.texts[name]), ""
			}
			part.Sides = append(part.Sides, one)
		}
		part.mark(room)
		t.Differing = append(t.Differing, part)
	}
	if len(t.Differing) > 0 {
		t.Is += wordDiffers + "|"
	}
}

// mark divides texts into pieces. It marks what differs from the first text and, in the first text, what
// differs from any other. It marks nothing if the texts share no word.
func (d *differing) mark(room *budget) {
	first := slices.IndexFunc(d.Sides, func(s side) bool { return s.Text.Text != "" })
	if first < 0 {
		return
	}
	of := d.Sides[first].Text.Text
	marked := make([]bool, len(of))
	for i := range d.Sides {
		one := &d.Sides[i]
		if i == first || one.Text.Text == "" {
			continue
		}
		old, now := changes.Words(of, one.Text.Text)
		if whole(of, old) && whole(one.Text.Text, now) {
			continue
		}
		for _, r := range old {
			fill(marked, r)
		}
		others := make([]bool, len(one.Text.Text))
		for _, r := range now {
			fill(others, r)
		}
		one.Pieces = room.pieces(one.Text.Text, others)
	}
	d.Sides[first].Pieces = room.pieces(of, marked)
}

// whole reports whether ranges cover all words of a text.
func whole(s string, ranges [][2]int) bool {
	return len(ranges) == 1 && strings.TrimSpace(s) == s[ranges[0][0]:ranges[0][1]]
}

func fill(marked []bool, r [2]int) {
	for i := r[0]; i < r[1]; i++ {
		marked[i] = true
	}
}
