package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Run writes a line for each task, at most width columns wide, with as many columns as fit: how many of the
// counted trials passed, how trials ended, the mean score, MCP calls and total agent time. Then it writes a
// line for each server, lines with remarks on servers, and a line about the eval. Further lines show the
// usage of the agent's models and of judges, and attacks that escaped a weak sandbox. A width of 0 is
// unlimited.
func Run(w io.Writer, r results.Results, width int) error {
	var out strings.Builder
	servers := view.Servers(r.Servers)
	out.WriteString(tableWithin(taskColumns(r), width) + serverTable(servers, width) + remarkLines(servers, width))
	if phrases := view.Reliability(r); phrases != nil {
		out.WriteString(wrap(phrases, width))
	}
	out.WriteString(attackTable(r, width))
	for _, line := range view.SummaryLines(r) {
		out.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

func taskColumns(r results.Results) []column {
	var rows [][]string
	for _, t := range view.Tasks(r) {
		rows = append(rows, row(t))
	}
	columns := columnsOf([]string{"TASK", "TRIALS", "VERDICT", "SCORE", "MCP CALLS", "TIME"}, rows)
	return figures(columns, 1, 3, 4, 5)
}

func row(t view.Task) []string {
	return []string{
		t.TestID, t.Passed(), ends(t), t.Score(), text.Number(t.MCPCalls), t.MedianTime(),
	}
}

func ends(t view.Task) string {
	var all []string
	for _, e := range t.Ends() {
		all = append(all, e.Text())
	}
	return strings.Join(all, ", ")
}

// attackTable returns a line for each attacked task, and one with the rates.
func attackTable(r results.Results, width int) string {
	line := view.AttackLine(r)
	if line != "" {
		line += "\n"
	}
	if rows, all := view.AttackRows(r); all != nil {
		return "\n" + tableOf(fitted(attackColumns(rows, *all), 0, width)) + line
	}
	return line
}

// attackColumns returns columns with the attacked tasks, the number of their trials that passed, and the
// results of the attacks. Columns without results are omitted.
func attackColumns(rows []view.Attacks, all view.Attacks) []column {
	row := func(a view.Attacks) []string {
		return []string{a.Task, a.Passed, a.Succeeded, a.Resisted, a.NotDelivered, a.NotDecided}
	}
	var cells [][]string
	for _, a := range rows {
		cells = append(cells, row(a))
	}
	columns := figures(columnsOf([]string{"UNDER ATTACK", "TASK PASSED", "SUCCEEDED", "RESISTED", "NOT DELIVERED", "ERROR"}, cells), 1, 2, 3, 4, 5)
	shown := slices.Clone(columns[:2])
	for i, total := range row(all)[2:] {
		if total != "0" {
			shown = append(shown, columns[2+i])
		}
	}
	return shown
}

// serverColumns are the columns of the table of servers. If there is not enough space the
// last ones are omitted first.
var serverColumns = []string{"SERVER", "CALLS", "ERRORS", "P50", "P95", "RECOVERED", "VALID ARGS", "TOKENS", "CATALOG"}

// serverTable returns a line for each server. Columns that do not fit in width are omitted,
// which the header indicates.
func serverTable(servers []view.Server, width int) string {
	if len(servers) == 0 {
		return ""
	}
	var rows [][]string
	for _, s := range servers {
		rows = append(rows, []string{s.Name, s.Calls, s.Errors, s.Median, s.P95, s.Recovered, s.ValidArgs, s.Tokens, s.Catalog})
	}
	all := columnsOf(serverColumns, rows)
	for i := 1; i < len(all); i++ {
		all = figures(all, i)
	}
	return tableWithin(all, width)
}

// maxRemarked is the maximum number of items of a kind in a line about a server.
const maxRemarked = 3

// remarkLines returns a line for each server with actions to review before trusting it. Lines are shortened
// to width.
func remarkLines(servers []view.Server, width int) string {
	var out strings.Builder
	for _, s := range servers {
		var said []string
		for _, remark := range s.Remarks {
			said = append(said, noteText(remark))
		}
		if len(said) == 0 {
			continue
		}
		line := fmt.Sprintf("server %s: %s", s.Name, strings.Join(said, "; "))
		if width > 0 {
			line = text.Fit(line, width)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

func noteText(n view.Note) string {
	if n.What == "" {
		return strings.Join(n.Which, ", ")
	}
	var which []string
	for _, name := range n.Which {
		which = append(which, printable(name))
	}
	return strings.TrimSpace(n.What + " " + strings.Join(text.Few(which, maxRemarked), ", "))
}

// printable returns an untrusted name, quoted if it contains a space or an invisible
// character.
func printable(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` || strings.Contains(name, " ") {
		return quoted
	}
	return name
}
