package github

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Comment writes the results of a run: the verdict, a table of its tasks, why trials did
// not pass, the servers, and how the trials were isolated. It returns errors of w.
func Comment(w io.Writer, run view.Run) error {
	var p page
	p.verdict(run)
	tasks := view.Tasks(run.Results)
	p.tasks(tasks)
	p.failures(tasks)
	p.servers(view.Servers(run.Results.Servers))
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
	p.printf("### %s: %s\n\n", run.Verdict(), code(r.EvalName))
	p.printf("%s\n\n", run.CountsLine())
	if missing := run.MissingSentences(); len(missing) > 0 {
		p.printf("%s\n\n", strings.Join(missing, " "))
	}
	if line := run.KeptSentence(); line != "" {
		p.printf("%s\n\n", code(line))
	}
	for _, line := range run.BrokenSentences() {
		p.printf("%s\n\n", line)
	}
	for _, m := range run.Unmet() {
		p.printf("Metric %s %s.\n\n", code(m.Identifier), view.Lack(m))
	}
	if line := run.TriggerSentence(); line != "" {
		p.printf("%s.\n\n", code(line))
	}
	if lines := view.SkillLines(r); len(lines) > 0 {
		p.printf("%s.\n\n", lines[0])
	}
	if line := view.FaultLine(r); line != "" {
		p.printf("%s.\n\n", line)
	}
	if line := run.AttackSentence(); line != "" {
		p.printf("%s\n\n", line)
	}
}

// tasks writes a row for each task, in the eval's order. If there are many, tasks that did not pass or that
// an attack succeeded on come first.
func (p *page) tasks(tasks []view.Task) {
	if len(tasks) > maxInOrder {
		others := slices.DeleteFunc(slices.Clone(tasks), view.Task.IsQuiet)
		tasks = append(others, slices.DeleteFunc(slices.Clone(tasks), func(t view.Task) bool { return !t.IsQuiet() })...)
	}
	columns := []column{{"Task", false}, {"Passed", true}, {"Rate", true}, {"Ended", false}, {"MCP calls", true}, {"Time", true}, {"Cost", true}}
	var rows [][]string
	for _, t := range tasks {
		rows = append(rows, taskRow(t))
	}
	p.table(roomTasks, columns, rows, "task")
}

// maxInOrder is the number of tasks that always fit, however long their names are.
const maxInOrder = 12

func taskRow(t view.Task) []string {
	return []string{code(t.TestID), t.Passed(), t.PassInterval(), ends(t), text.Number(t.MCPCalls), t.MedianTime(), view.Cost(t.Cost())}
}

func ends(t view.Task) string {
	var all []string
	for _, e := range t.Ends() {
		all = append(all, strings.TrimSpace(e.Lead+" "+code(e.Word)))
	}
	return strings.Join(all, ", ")
}

// maxReason is the maximum length in bytes of the reasons why a trial did not pass.
const maxReason = 1500

// failures writes, collapsed, why trials did not pass and which attacks succeeded.
func (p *page) failures(tasks []view.Task) {
	all := view.Failures(tasks, 2*maxReason)
	if len(all) == 0 {
		return
	}
	p.folded(title(all), func() {
		left := p.fill(roomFailures, len(all), func(i int) string { return failureText(all[i]) })
		if left > 0 {
			p.printf("Left out: %s.\n\n", title(all[len(all)-left:]))
		}
	})
}

// title says how many trials did not pass, how many do not count, and how many were attacked successfully.
func title(failures []view.Alike[view.Failure]) string {
	failed, others, attacks := 0, 0, 0
	for _, f := range failures {
		if f.What.Attack {
			attacks += len(f.Trials)
		}
		switch {
		case f.What.Failed && f.First.Outcome.OfAgent():
			failed += len(f.Trials)
		case f.What.Failed:
			others += len(f.Trials)
		}
	}
	var said []string
	if failed > 0 {
		said = append(said, text.Count(failed, "trial")+" did not pass")
	}
	if others > 0 {
		said = append(said, text.Count(others, "trial")+" without a verdict on the agent")
	}
	if attacks > 0 {
		said = append(said, text.Count(attacks, "attack")+" succeeded")
	}
	return strings.Join(said, "; ")
}

func failureText(f view.Alike[view.Failure]) string {
	which := code(f.Task.TestID)
	switch {
	case f.All() != "":
		which += ", " + f.All() + " trials"
	case len(f.Trials) > 1:
		which += ", trials " + strings.ReplaceAll(strings.Trim(fmt.Sprint(f.Named()), "[]"), " ", ", ")
		if more := f.More(); more > 0 {
			which += fmt.Sprintf(" and %d more", more)
		}
	case len(f.Task.Trials) > 1:
		which += fmt.Sprintf(", trial %d", f.Trials[0])
	}
	if f.What.Reasons == "" || f.What.Word != string(evidence.ClassFail) { // graders' reasons imply that the trial failed
		which += ": " + code(f.What.Word)
	}
	text := which + "\n\n"
	if f.What.Reasons != "" {
		text += pre(f.What.Reasons, maxReason) + "\n"
	}
	return text
}

// servers writes a row for each server, collapsed.
func (p *page) servers(all []view.Server) {
	if len(all) == 0 {
		return
	}
	columns := []column{{"Server", false}, {"Calls", true}, {"Errors", true}, {"Recovered", true}, {"Median", true}, {"Of note", false}}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{code(s.Name), s.Calls, s.Errors, s.Recovered, s.Median, ofNote(s.Remarks)})
	}
	p.folded(text.Count(len(all), "server"), func() { p.table(roomServers, columns, rows, "server") })
}

// maxNoted is the maximum number of items of a kind in a server's row.
const maxNoted = 3

func ofNote(notes []view.Note) string {
	var said []string
	for _, note := range notes {
		said = append(said, strings.TrimSpace(note.What+" "+strings.Join(text.Some(note.Which, maxNoted, code), ", ")))
	}
	return strings.Join(said, ", ")
}

// isolation returns how the trials were isolated.
func isolation(run view.Run) string {
	i := run.Isolation()
	if i.State != view.Good {
		i.Word = "**" + i.Word + "**"
	}
	text := i.Word + ": " + i.Text
	if !run.Isolated {
		return text
	}
	text += fmt.Sprintf(" Network %s", code(run.Network))
	if i.Tried > 0 {
		text += fmt.Sprintf("; ways out tried: %d, open: %d", i.Tried, i.Open)
	}
	if weak := run.Results.Config.Weak; len(weak) > 0 {
		text += fmt.Sprintf("; **weak**: %s got out", code(strings.Join(weak, ", ")))
	}
	return text + missing(run.Guarantees) + "."
}

// maxMissing is the maximum number of missing guarantees listed.
const maxMissing = 3

func missing(g *evidence.Guarantees) string {
	if g == nil || len(g.Missing) == 0 {
		return ""
	}
	return "; **not enforced**: " + strings.Join(text.Some(g.Missing, maxMissing, code), ", ")
}
