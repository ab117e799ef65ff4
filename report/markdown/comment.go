package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Comment writes what a run came to: the verdict, a table of its tasks, why trials did not
// pass, how servers fared, and what isolated the trials. An error is w's.
func Comment(w io.Writer, run view.Run) error {
	var p page
	p.verdict(run)
	p.tasks(run.Results)
	p.failures(run.Results.Tasks)
	p.servers(run.Results.Servers)
	p.printf("%s\n\n", isolation(run))
	p.printf("<sub>run %s, agent %s", code(run.ID), code(run.Results.Config.EngineType))
	if model := run.Results.Config.ModelID; model != "" {
		p.printf(", model %s", code(model))
	}
	for _, label := range view.LabelTexts(run.Results.Labels) {
		p.printf(", %s", code(label))
	}
	p.printf(", waza %s</sub>\n", code(run.Waza))
	return p.writeTo(w)
}

func (p *page) verdict(run view.Run) {
	r := run.Results
	passed, counted := 0, 0
	for _, task := range r.Tasks {
		if s := task.Stats; s != nil {
			passed, counted = passed+s.PassedRuns, counted+s.TotalRuns
		}
	}
	p.printf("### %s: %s\n\n", run.Verdict(), code(r.EvalName))
	p.printf("%d of %s passed", r.Summary.Succeeded, text.Count(r.Summary.TotalTests, "task"))
	if s := r.Summary.Statistics; s != nil {
		p.printf(", %s", view.Interval(s.SuccessRateCI))
	}
	p.printf("; %d of %s", passed, text.Count(counted, "trial"))
	if r.Summary.DurationMS > 0 { // it has come to its end
		p.printf("; %s", took(r.Summary.DurationMS))
	}
	if m := r.Summary.Models; m != nil && m.Cost != nil {
		p.printf("; %s", view.Dollars(*m.Cost))
	}
	p.WriteString(".\n\n")
	if missing := run.ToldMissing(); len(missing) > 0 {
		p.printf("%s\n\n", strings.Join(missing, " "))
	}
	for _, m := range r.Unmet() {
		p.printf("Metric %s %s.\n\n", code(m.Identifier), view.Lack(m))
	}
	if lines := view.SkillLines(r); len(lines) > 0 {
		p.printf("%s.\n\n", lines[0])
	}
	if a := r.Summary.Attacks; a != nil {
		p.printf("Of %s on agents %d succeeded and %d were resisted.\n\n", text.Count(a.Trials, "attack"), a.Succeeded, a.Resisted)
	}
}

// tasks has a row for each task, in the eval's order; where there are many, those first
// that did not pass.
func (p *page) tasks(r results.Results) {
	var tasks []view.Task
	for _, t := range r.Tasks {
		tasks = append(tasks, view.TaskOf(t, r.Config.RunsPerTest))
	}
	if len(tasks) > maxInOrder {
		others := slices.DeleteFunc(slices.Clone(tasks), view.Task.Passed)
		tasks = append(others, slices.DeleteFunc(tasks, func(t view.Task) bool { return !t.Passed() })...)
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

func taskRow(t view.Task) []string {
	passed, rate := view.Unknown, view.Unknown
	if s := t.Stats; s != nil {
		passed, rate = view.Share(s.PassedRuns, s.TotalRuns), view.Interval(s.PassRateCI)
	}
	return []string{code(t.TestID), passed, rate, ends(t), fmt.Sprint(t.MCPCalls), view.Clock(t.Time), view.Cost(t.Cost())}
}

// ends are the outcomes of a task's trials, those of several counted. What an attack
// succeeded on did not simply pass.
func ends(t view.Task) string {
	var said []string
	if t.Attacked {
		said = append(said, code(results.AttackSucceeded))
	}
	for _, c := range t.Outcomes {
		text, all := code(string(c.Class)), c.Trials == len(t.Runs)
		switch {
		case all && t.Attacked && c.Class == evidence.ClassPass:
			continue
		case !all:
			text = fmt.Sprintf("%d %s", c.Trials, text)
		}
		said = append(said, text)
	}
	for _, c := range t.Earlier {
		said = append(said, fmt.Sprintf("after %d %s", c.Trials, code(string(c.Class))))
	}
	if len(said) == 0 {
		return view.Unknown
	}
	return strings.Join(said[:min(len(said), maxEnds)], ", ")
}

// maxEnds is how many ways to end a task's row names. There are seven.
const maxEnds = 9

func took(ms int64) string { return view.Clock(time.Duration(ms) * time.Millisecond) }
