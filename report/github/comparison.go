package github

import (
	"fmt"
	"io"
	"slices"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Comparison writes how runs differ from the first one, regressions first, which differences are significant,
// and the results of each run. It returns errors of w.
func Comparison(w io.Writer, c results.Comparison) error {
	var p page
	p.printf("### %s\n\n", view.ChangesLine(c))
	if few := view.TooFew(c); few != "" {
		p.printf("%s\n\n", few)
	}
	p.changed(c.Differences)
	p.pairs(c.Pairs)
	p.unlike(c.Pairs)
	p.runs(c.Runs)
	p.marks(c)
	return p.writeTo(w)
}

func (p *page) changed(all []results.Difference) {
	columns := []column{{"Change", false}, {"Task", false}, {"Run", true}, {"Before", true}, {"After", true}, {"Pass rate", false}, {"95% interval", true}}
	var rows [][]string
	for _, d := range view.Differences(all) {
		rows = append(rows, []string{string(d.Change), code(d.Task), fmt.Sprint(d.Run), shareOf(d.Before), shareOf(d.After), d.Shows(), d.Range()})
	}
	p.table(roomChanges, columns, rows, "difference")
}

// pairs writes a row for each figure of two runs, over the tasks that both runs have.
func (p *page) pairs(all []results.Pair) {
	columns := []column{{"Mean over tasks", false}, {"Run", true}, {"Before", true}, {"After", true}, {"Difference", false}, {"95% interval", true}}
	var rows [][]string
	for _, pair := range all {
		for _, f := range view.Figures(pair) {
			rows = append(rows, []string{f.Name, fmt.Sprint(pair.Run), f.Unit.Text(f.Before), f.Unit.Text(f.After), f.Shows(), f.Range()})
		}
	}
	p.table(roomPairs, columns, rows, "figure")
}

// unlike writes, collapsed, the settings that differ from the first run and may explain different results.
func (p *page) unlike(all []results.Pair) {
	columns := []column{{"Not alike", false}, {"Run", true}, {"Before", false}, {"After", false}}
	var rows [][]string
	for _, pair := range all {
		for _, u := range pair.Unlike {
			rows = append(rows, []string{code(u.What), fmt.Sprint(pair.Run), code(u.Before), code(u.After)})
		}
	}
	if len(rows) > 0 {
		p.folded(text.Count(len(rows), "different setting"), func() { p.table(roomUnlike, columns, rows, "setting") })
	}
}

func shareOf(t results.ComparedTask) string {
	share, word := view.PassedOf(t)
	switch {
	case word == "":
		return share
	case share == "":
		return code(word)
	}
	return share + ", " + code(word)
}

// runs writes a row for each run, with its missing trials.
func (p *page) runs(runs []results.ComparedRun) {
	columns := []column{{"Run", true}, {"Agent", false}, {"Model", false}, {"Passed", true}, {"Rate", true}, {"MCP calls", true}, {"Cost", true}, {"Median time", true}, {"Of note", false}}
	var rows [][]string
	for _, r := range view.ComparedRuns(runs) {
		model := r.Model
		if model != view.Unknown {
			model = code(model)
		}
		rows = append(rows, []string{
			fmt.Sprint(r.Run), code(r.Agent), model, view.Share(r.Passed, r.Trials), r.PassInterval, r.MCPCalls, r.Cost, r.MedianTime,
			ofNote(r.Notes),
		})
	}
	p.table(roomRuns, columns, rows, "run")
}

// maxMarked is the maximum number of runs shown side by side.
const maxMarked = 8

// marks writes a row for each task of any run, collapsed.
func (p *page) marks(c results.Comparison) {
	tasks := c.TaskIDs()
	if len(c.Runs) > maxMarked || len(tasks) == 0 {
		return
	}
	columns := []column{{"Task", false}}
	marks := map[string][]string{}
	for _, id := range tasks {
		marks[id] = slices.Repeat([]string{view.Unknown}, len(c.Runs))
	}
	for i, r := range c.Runs {
		columns = append(columns, column{fmt.Sprintf("Run %d", r.Run), true})
		for _, t := range r.Tasks {
			marks[t.ID][i] = shareOf(t)
		}
	}
	var rows [][]string
	for _, id := range tasks {
		rows = append(rows, append([]string{code(id)}, marks[id]...))
	}
	p.folded(text.Count(len(tasks), "task"), func() { p.table(roomMarks, columns, rows, "task") })
}
