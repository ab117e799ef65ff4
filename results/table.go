package results

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// Table writes a line for each task, at most width columns wide, with as many of these as
// there is room for: its trials that passed and all, how they ended, the mean score, MCP
// calls and agents' time in all. Then come the servers, a
// line for each, and another for each of which there is something to tell, and one of the
// eval. A width of 0 is no limit. Where there is something
// to say, lines behind them say what the agent's models took, what judges took, what got
// out of a weak sandbox, and that nothing was isolated.
func (r Results) Table(w io.Writer, width int) error {
	var out strings.Builder
	out.WriteString(tableWithin(taskColumns(r.Tasks), width))
	out.WriteString(r.serverTable(width) + r.remarks(width) + r.evalLine(width) + r.attackTable(width))
	for _, line := range r.SkillLines() {
		out.WriteString(line + "\n")
	}
	if m := r.Summary.Models; m != nil {
		out.WriteString(m.line())
	}
	if j := r.Summary.Judge; j != nil {
		fmt.Fprintf(&out, "judge: %d answers, %d tokens in, %d out\n", j.Answers, j.InputTokens, j.OutputTokens)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		fmt.Fprintf(&out, "label %s: %s\n", name, text.Shorten(string(r.Labels[name]), maxLabel))
	}
	if len(r.Config.Weak) > 0 {
		fmt.Fprintf(&out, "weak sandbox: %s got out, allowed by --allow-weak\n", strings.Join(r.Config.Weak, ", "))
	}
	if !r.Config.Isolated {
		out.WriteString("not isolated\n")
	}
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

// maxLabel is how many bytes of a label are shown.
const maxLabel = 100

func taskColumns(tasks []Task) []column {
	var rows [][]string
	for _, t := range tasks {
		rows = append(rows, row(t))
	}
	columns := columnsOf([]string{"TASK", "TRIALS", "VERDICT", "SCORE", "MCP CALLS", "TIME"}, rows)
	return figures(columns, 1, 3, 4, 5)
}

func row(t Task) []string {
	passed, all := 0, t.Totals()
	for _, r := range t.Runs {
		if r.Outcome == evidence.ClassPass {
			passed++
		}
	}
	score := "-"
	if t.Stats != nil {
		score = fmt.Sprintf("%.2f", t.Stats.AvgScore)
	}
	return []string{
		t.TestID, fmt.Sprintf("%d/%d", passed, len(t.Runs)), verdict(t), score,
		fmt.Sprint(all.MCPCalls), Clock(all.Time),
	}
}

// verdict lists how the runs ended, without pass where one did not, and how many
// attempts came before them.
func verdict(t Task) string {
	ends := lastEnds(t.Runs)
	switch {
	case t.Attacked() && ends == string(evidence.ClassPass):
		ends = AttackSucceeded
	case t.Attacked():
		ends += ", " + AttackSucceeded
	}
	return strings.Join(append([]string{ends}, EarlierEnds(t.Runs)...), ", ")
}

// EarlierEnds says how attempts ended that were made again, such as "after 2 infra".
func EarlierEnds(runs []RunResult) (ends []string) {
	counts := map[evidence.Class]int{}
	for _, r := range runs {
		for _, attempt := range r.Earlier {
			counts[attempt.Outcome]++
		}
	}
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		ends = append(ends, fmt.Sprintf("after %d %s", counts[class], class))
	}
	return ends
}

func lastEnds(runs []RunResult) string {
	var ends []string
	for _, r := range runs {
		if r.Outcome != evidence.ClassPass {
			ends = append(ends, r.Outcome.With(r.Reason))
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	switch {
	case len(runs) == 0:
		return "n/a"
	case len(ends) == 0:
		return string(evidence.ClassPass)
	}
	return strings.Join(ends, ",")
}
