package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/runner/results"
)

// Comparison writes how runs differ from the first of them, regressions first, and what
// each came to. An error is w's.
func Comparison(w io.Writer, c results.Comparison) error {
	var p page
	p.changed(c)
	p.runs(c.Runs)
	p.marks(c.Runs)
	return p.writeTo(w)
}

func (p *page) changed(c results.Comparison) {
	p.printf("### %s\n\n", changes(c))
	if len(c.Differences) == 0 {
		return
	}
	columns := []column{{"Change", false}, {"Task", false}, {"Run", true}, {"Before", true}, {"After", true}, {"Difference in points", true}}
	var rows [][]string
	for _, d := range c.Differences {
		rows = append(rows, []string{string(d.Change), code(d.Task), fmt.Sprint(d.Run), shareOf(d.Before), shareOf(d.After), points(d)})
	}
	p.table(roomChanges, columns, rows, "difference")
}

// changes counts the differences by their kinds.
func changes(c results.Comparison) string {
	if len(c.Differences) == 0 {
		return fmt.Sprintf("%s compared: no task went otherwise than in run 1", plural(len(c.Runs), "run"))
	}
	var counts []string
	for rest := c.Differences; len(rest) > 0; {
		change, n := rest[0].Change, 0
		for n < len(rest) && rest[n].Change == change {
			n++
		}
		counts, rest = append(counts, fmt.Sprintf("%d %s", n, change)), rest[n:]
	}
	return fmt.Sprintf("%s compared: %s", plural(len(c.Runs), "run"), strings.Join(counts, ", "))
}

func shareOf(t results.ComparedTask) string {
	if t.Trials == 0 {
		return code(t.Mark)
	}
	return fmt.Sprintf("%d/%d", t.Passed, t.Trials)
}

func points(d results.Difference) string {
	switch {
	case d.PassRate == nil:
		return none
	case d.Few:
		return string(d.Finding)
	case d.Finding.Shown():
		return fmt.Sprintf("%s, %+.0f %s", d.Finding, 100*d.PassRate.Mean, bounds(*d.PassRate))
	}
	return fmt.Sprintf("%s %s", d.Finding, bounds(*d.PassRate))
}

func bounds(i results.Interval) string {
	return fmt.Sprintf("[%+.0f, %+.0f]", 100*i.Lower, 100*i.Upper)
}

// runs has a row for each run, and says what is missing of which.
func (p *page) runs(runs []results.ComparedRun) {
	columns := []column{{"Run", true}, {"Agent", false}, {"Model", false}, {"Passed", true}, {"Rate", true}, {"MCP calls", true}, {"Cost", true}, {"Median time", true}, {"Of note", false}}
	var rows [][]string
	for _, r := range runs {
		rate, model, spent := none, none, (*float64)(nil)
		if r.PassRate != nil {
			rate = interval(r.PassRate.Interval)
		}
		if r.Model != "" {
			model = code(r.Model)
		}
		if r.Models != nil {
			spent = r.Models.Cost
		}
		rows = append(rows, []string{
			fmt.Sprint(r.Run), code(r.Agent), model, fmt.Sprintf("%d/%d", r.Passed, r.Trials), rate,
			fmt.Sprint(r.MCPCalls), dollars(spent), medianTime(r.MedianDurationMS), noteOf(r, runs[0]),
		})
	}
	p.table(roomRuns, columns, rows, "run")
}

func medianTime(ms *float64) string {
	if ms == nil {
		return none
	}
	return round(time.Duration(*ms * float64(time.Millisecond)))
}

// noteOf says what makes a run less than the others.
func noteOf(r, first results.ComparedRun) string {
	switch {
	case r.Error != "":
		return code(r.Error)
	case r.EvalName != first.EvalName:
		return "of another eval, " + code(r.EvalName)
	case r.Infra > 0:
		return plural(r.Infra, "trial") + " without an outcome"
	case !r.Isolated:
		return "not isolated"
	}
	return ""
}

// maxMarked is how many runs stand side by side.
const maxMarked = 8

// marks has a row for each task of any run, folded.
func (p *page) marks(runs []results.ComparedRun) {
	if len(runs) > maxMarked {
		return
	}
	var tasks []string
	marks := map[string][]string{}
	columns := []column{{"Task", false}}
	for i, r := range runs {
		columns = append(columns, column{fmt.Sprintf("Run %d", r.Run), true})
		for _, t := range r.Tasks {
			if marks[t.ID] == nil {
				tasks, marks[t.ID] = append(tasks, t.ID), slices.Repeat([]string{none}, len(runs))
			}
			marks[t.ID][i] = shareOf(t)
		}
	}
	if len(tasks) == 0 {
		return
	}
	var rows [][]string
	for _, task := range tasks {
		rows = append(rows, append([]string{code(task)}, marks[task]...))
	}
	p.folded(plural(len(tasks), "task"), func() { p.table(roomMarks, columns, rows, "task") })
}
