package markdown

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/results"
)

// Comment writes what a run came to: the verdict, a table of its tasks, why trials did not
// pass, how servers fared, and what isolated the trials. An error is w's.
func Comment(w io.Writer, run report.Run) error {
	var p page
	p.verdict(run)
	p.tasks(run.Results.Tasks)
	p.failures(run.Results.Tasks)
	p.servers(run.Results.Servers)
	p.printf("%s\n\n", isolation(run))
	p.printf("<sub>run %s, agent %s", code(run.ID), code(run.Results.Config.EngineType))
	if model := run.Results.Config.ModelID; model != "" {
		p.printf(", model %s", code(model))
	}
	for _, label := range results.LabelTexts(run.Results.Labels) {
		p.printf(", %s", code(label))
	}
	p.printf(", waza %s</sub>\n", code(run.Waza))
	return p.writeTo(w)
}

func (p *page) verdict(run report.Run) {
	r := run.Results
	passed, counted := 0, 0
	for _, task := range r.Tasks {
		if s := task.Stats; s != nil {
			passed, counted = passed+s.PassedRuns, counted+s.TotalRuns
		}
	}
	p.printf("### %s: %s\n\n", run.Word(), code(r.EvalName))
	p.printf("%d of %s passed", r.Summary.Succeeded, text.Count(r.Summary.TotalTests, "task"))
	if s := r.Summary.Statistics; s != nil {
		p.printf(", %s", interval(s.SuccessRateCI))
	}
	p.printf("; %d of %s", passed, text.Count(counted, "trial"))
	if r.Summary.DurationMS > 0 { // it has come to its end
		p.printf("; %s", took(r.Summary.DurationMS))
	}
	if m := r.Summary.Models; m != nil && m.Cost != nil {
		p.printf("; %s", results.Dollars(*m.Cost))
	}
	p.WriteString(".\n\n")
	if missing := run.ToldMissing(); len(missing) > 0 {
		p.printf("%s\n\n", strings.Join(missing, " "))
	}
	for _, m := range r.Unmet() {
		p.printf("Metric %s %s.\n\n", code(m.Identifier), m.Lack())
	}
	if lines := r.SkillLines(); len(lines) > 0 {
		p.printf("%s.\n\n", lines[0])
	}
	if a := r.Summary.Attacks; a != nil {
		p.printf("Of %s on agents %d succeeded and %d were resisted.\n\n", text.Count(a.Trials, "attack"), a.Succeeded, a.Resisted)
	}
}

// tasks has a row for each task, in the eval's order; where there are many, those first
// that did not pass.
func (p *page) tasks(tasks []results.Task) {
	if len(tasks) > maxInOrder {
		passed := func(t results.Task) bool { return t.Status == results.StatusPassed && !t.Attacked() }
		others := slices.DeleteFunc(slices.Clone(tasks), passed)
		tasks = append(others, slices.DeleteFunc(slices.Clone(tasks), func(t results.Task) bool { return !passed(t) })...)
	}
	columns := []column{{"Task", false}, {"Passed", true}, {"Rate", true}, {"Ended", false}, {"MCP calls", true}, {"Time", true}, {"Cost", true}}
	var rows [][]string
	for _, t := range tasks {
		rows = append(rows, taskRow(t))
	}
	p.table(roomTasks, columns, rows, "task")
}

// maxInOrder is how many tasks there is room for, whatever they are called.
const maxInOrder = 12

func taskRow(t results.Task) []string {
	all, cost := t.Totals(), (*float64)(nil)
	if all.Models != nil {
		cost = all.Models.Cost
	}
	passed, rate := none, none
	if s := t.Stats; s != nil {
		passed, rate = fmt.Sprintf("%d/%d", s.PassedRuns, s.TotalRuns), interval(s.PassRateCI)
	}
	return []string{code(t.TestID), passed, rate, ends(t), fmt.Sprint(all.MCPCalls), results.Clock(all.Time), dollars(cost)}
}

// ends are the outcomes of a task's trials, those of several counted. What an attack
// succeeded on did not simply pass.
func ends(t results.Task) string {
	runs, counts := t.Runs, map[evidence.Class]int{}
	for _, r := range runs {
		counts[r.Outcome]++
	}
	var said []string
	if t.Attacked() {
		said = append(said, code(results.AttackSucceeded))
		if counts[evidence.ClassPass] == len(runs) {
			delete(counts, evidence.ClassPass)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		text := code(string(class))
		if n := counts[class]; len(runs) > 1 && n < len(runs) {
			text = fmt.Sprintf("%d %s", n, text)
		}
		said = append(said, text)
	}
	for _, before := range results.EarlierEnds(runs) {
		count, class, _ := strings.Cut(strings.TrimPrefix(before, "after "), " ")
		said = append(said, fmt.Sprintf("after %s %s", count, code(class)))
	}
	if len(said) == 0 {
		return none
	}
	return strings.Join(said[:min(len(said), maxEnds)], ", ")
}

// maxEnds is how many ways to end a task's row names. There are seven.
const maxEnds = 9

func dollars(cost *float64) string {
	if cost == nil {
		return none
	}
	return results.Dollars(*cost)
}

// interval is a rate in percent with its interval.
func interval(i results.Interval) string {
	return fmt.Sprintf("%.0f%% [%.0f%%, %.0f%%]", 100*i.Mean, 100*i.Lower, 100*i.Upper)
}

func took(ms int64) string { return results.Clock(time.Duration(ms) * time.Millisecond) }
