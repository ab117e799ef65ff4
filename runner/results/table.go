package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/plain"
	"github.com/waza-isolate/waza/runner/evidence"
)

// minTask is the least width of the task column.
const minTask = 12

// Table writes a line for each task, at most width columns wide where the other
// columns leave room for the task's name: its trials that passed and all, how they
// ended, the mean score, MCP calls and agents' time in all. Then come the servers, a
// line for each, and another for each of which there is something to tell, and one of the
// eval. A width of 0 is no limit. Where there is something
// to say, lines behind them say what the agent's models took, what judges took, what got
// out of a weak sandbox, and that nothing was isolated.
func (r Results) Table(w io.Writer, width int) error {
	rows := [][]string{{"TASK", "TRIALS", "VERDICT", "SCORE", "MCP CALLS", "TIME"}}
	for _, t := range r.Tasks {
		rows = append(rows, row(t))
	}
	widths := columnWidths(rows)
	if width > 0 {
		others := 0
		for _, column := range widths[1:] {
			others += column + 2
		}
		widths[0] = min(widths[0], max(width-others, minTask))
	}
	var out strings.Builder
	for _, cells := range rows {
		writeRow(&out, cells, widths)
	}
	out.WriteString(r.serverTable(width) + r.remarks(width) + r.evalLine(width) + r.attackTable(width))
	if m := r.Summary.Models; m != nil {
		out.WriteString(m.line())
	}
	if j := r.Summary.Judge; j != nil {
		fmt.Fprintf(&out, "judge: %d answers, %d tokens in, %d out\n", j.Answers, j.InputTokens, j.OutputTokens)
	}
	if len(r.Config.Weak) > 0 {
		fmt.Fprintf(&out, "weak sandbox: %s got out, allowed by --allow-weak\n", strings.Join(r.Config.Weak, ", "))
	}
	if !r.Config.Isolated {
		out.WriteString("not isolated\n")
	}
	_, err := io.WriteString(w, plain.Text(out.String()))
	return err
}

func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func writeRow(out *strings.Builder, cells []string, widths []int) {
	for i, cell := range cells {
		cell = shorten(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		switch i {
		case 0:
			out.WriteString(cell + pad)
		case 2: // the only other column of words
			out.WriteString("  " + cell + pad)
		default:
			out.WriteString("  " + pad + cell)
		}
	}
	out.WriteByte('\n')
}

func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}

func row(t Task) []string {
	passed, calls := 0, 0
	var took time.Duration
	for _, r := range t.Runs {
		if r.Outcome == evidence.ClassPass {
			passed++
		}
		calls += r.SessionDigest.MCPToolCalls
		took += time.Duration(r.DurationMS) * time.Millisecond
	}
	score := "-"
	if t.Stats != nil {
		score = fmt.Sprintf("%.2f", t.Stats.AvgScore)
	}
	return []string{
		t.TestID, fmt.Sprintf("%d/%d", passed, len(t.Runs)), verdict(t.Runs), score,
		fmt.Sprint(calls), clock(took),
	}
}

// verdict lists how the runs ended, without pass where one did not, and how many
// attempts came before them.
func verdict(runs []RunResult) string {
	again := 0
	for _, r := range runs {
		again += len(r.Earlier)
	}
	if again > 0 {
		return fmt.Sprintf("%s, after %d infra", lastEnds(runs), again)
	}
	return lastEnds(runs)
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

// clock writes a time in seconds, or in minutes and seconds.
func clock(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
