package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Run writes a line for each task, at most width columns wide, with as many columns as fit:
// how many trials passed of those that count, how they ended, the mean score, MCP calls and total agent time.
// Then it writes a line for each server, lines with remarks on servers, and a line about
// the eval. A width of 0 is unlimited. Further lines show the usage of the agent's models
// and of judges, and attacks that escaped a weak sandbox.
func Run(w io.Writer, r results.Results, width int) error {
	var out strings.Builder
	out.WriteString(tableWithin(taskColumns(r), width))
	out.WriteString(serverTable(r.Servers, width) + remarkLines(r.Servers, width) + evalLine(r.Summary.Statistics, width) + attackTable(r, width))
	for _, line := range view.SkillLines(r) {
		out.WriteString(line + "\n")
	}
	if m := r.Summary.Models; m != nil {
		out.WriteString(modelsLine(m))
	}
	if j := r.Summary.Judge; j != nil {
		fmt.Fprintf(&out, "judge: %s, %s tokens in, %s out\n", text.Count(j.Answers, "answer"), text.Number(j.InputTokens), text.Number(j.OutputTokens))
	}
	for _, label := range view.LabelTexts(r.Labels) {
		fmt.Fprintf(&out, "label %s\n", label)
	}
	if len(r.Config.Weak) > 0 {
		fmt.Fprintf(&out, "weak sandbox: %s got out, allowed by --allow-weak\n", strings.Join(r.Config.Weak, ", "))
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

// evalLine returns one or more lines about the reliability of the tasks.
func evalLine(s *results.Statistics, width int) string {
	if s == nil {
		return ""
	}
	k := len(s.PassAtK)
	said := []string{consistencyText(s.Consistency), fmt.Sprintf("pass@%d %.2f", k, s.PassAtK[k-1])}
	if k > 1 {
		said = append(said, fmt.Sprintf("pass^%d %.2f", k, s.PassHatK[k-1]))
	}
	for _, e := range []struct {
		name string
		of   *results.Estimate
	}{{"score", s.Score}, {"selection", s.Selection}, {"params", s.Params}} {
		if e.of != nil {
			said = append(said, fmt.Sprintf("%s %.2f [%.2f, %.2f]", e.name, e.of.Mean, e.of.Lower, e.of.Upper))
		}
	}
	return wrap(said, width)
}

// consistencyText lists the counts that are not 0.
func consistencyText(c results.ConsistencyCounts) string {
	var said []string
	for _, kind := range []struct {
		tasks int
		name  results.Consistency
	}{{c.Always, results.Always}, {c.Mixed, results.Mixed}, {c.Never, results.Never}} {
		if kind.tasks > 0 {
			said = append(said, fmt.Sprintf("%d %s", kind.tasks, kind.name))
		}
	}
	return "tasks pass: " + strings.Join(said, ", ")
}

// attackTable returns a line for each attacked task, and one with the rates.
func attackTable(r results.Results, width int) string {
	a := r.Summary.Attacks
	switch {
	case a == nil && r.Config.NoAttacks:
		return "attacks were withheld by --no-attacks\n"
	case a == nil:
		return ""
	}
	table := tableOf(fitted(attackColumns(r), 0, width))
	return fmt.Sprintf("\n%sattacks: %s; the task itself: %s\n", table, rateText(a.SuccessRate, "succeeded"), rateText(a.BenignRate, "passed"))
}

// attackColumns returns the attacked tasks, how many of their trials passed, and the
// results of the attacks. Columns without results are omitted.
func attackColumns(r results.Results) []column {
	row := func(task string, a *results.Attacks) []string {
		return []string{task, view.Rate(a.BenignRate), fmt.Sprint(a.Succeeded), fmt.Sprint(a.Resisted), fmt.Sprint(a.NotDelivered), fmt.Sprint(a.Errors)}
	}
	var rows [][]string
	for _, t := range r.Tasks {
		if a := results.AttacksOn(t); a != nil {
			rows = append(rows, row(t.TestID, a))
		}
	}
	all := figures(columnsOf([]string{"UNDER ATTACK", "TASK PASSED", "SUCCEEDED", "RESISTED", "NOT DELIVERED", "ERROR"}, rows), 1, 2, 3, 4, 5)
	columns := slices.Clone(all[:2])
	for i, total := range row("", r.Summary.Attacks)[2:] {
		if total != "0" {
			columns = append(columns, all[2+i])
		}
	}
	return columns
}

// rateText formats a rate with its interval.
func rateText(r *results.Rate, did string) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%d of %d %s, %s", r.Count, r.Of, did, view.Interval(r.Interval))
}

// modelsLine returns the line about models.
func modelsLine(m *results.Models) string {
	parts := []string{fmt.Sprintf("models: %s", text.Count(m.Requests, "request"))}
	if m.Failed > 0 {
		parts[0] += fmt.Sprintf(" (%d failed)", m.Failed)
	}
	tokens := text.Number(m.Tokens.Input) + " tokens in"
	if m.Tokens.Cached > 0 {
		tokens += fmt.Sprintf(" (%s cached)", text.Number(m.Tokens.Cached))
	}
	parts = append(parts, tokens, text.Number(m.Tokens.Output)+" out")
	if m.Cost != nil {
		parts = append(parts, view.Dollars(*m.Cost))
	}
	if m.MedianFirstTokenMS != nil {
		parts = append(parts, "first token after "+view.MS(m.MedianFirstTokenMS))
	}
	for _, o := range []struct {
		origin evidence.Origin
		words  string
	}{{evidence.OriginOutOfBand, "out of band"}, {evidence.OriginUnknown, "of unknown origin"}} {
		if calls := m.Origins[o.origin]; calls > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", text.Count(calls, "call"), o.words))
		}
	}
	return strings.Join(parts, ", ") + "\n"
}

// serverColumns are the columns of the table of servers. If there is not enough space the
// last ones are omitted first.
var serverColumns = []string{"SERVER", "CALLS", "ERRORS", "P50", "P95", "RECOVERED", "VALID ARGS", "TOKENS", "CATALOG"}

// serverTable returns a line for each server. Columns that do not fit in width are omitted,
// which the header indicates.
func serverTable(servers []results.ServerCard, width int) string {
	if len(servers) == 0 {
		return ""
	}
	var rows [][]string
	for _, s := range servers {
		rows = append(rows, serverRow(s))
	}
	all := columnsOf(serverColumns, rows)
	for i := 1; i < len(all); i++ {
		all = figures(all, i)
	}
	return tableWithin(all, width)
}

func serverRow(s results.ServerCard) []string {
	return []string{
		s.Name, text.Number(s.Calls), view.Rate(s.ErrorRate), view.MS(s.MedianDurationMS), view.MS(s.P95DurationMS),
		view.Rate(s.RecoveryRate), view.Rate(s.ValidityRate), tokens(s), catalog(s),
	}
}

func tokens(s results.ServerCard) string {
	if most := s.Tokens(); most != nil {
		return "~" + text.Number(*most)
	}
	return view.Unknown
}

// catalog returns the beginning of the catalog's digest if there is only one catalog.
func catalog(s results.ServerCard) string {
	switch {
	case s.RugPulls > 0:
		return "rug pull"
	case len(s.Catalogs) == 0:
		return view.Unknown
	case len(s.Catalogs) > 1:
		return fmt.Sprintf("%d kinds", len(s.Catalogs))
	}
	return fmt.Sprintf("%.8s", s.Catalogs[0].SHA256)
}

// maxRemarked is the maximum number of items of a kind in a line about a server.
const maxRemarked = 3

// remarkLines returns a line for each server that did something to review before trusting
// it. Lines are shortened to width.
func remarkLines(servers []results.ServerCard, width int) string {
	var out strings.Builder
	for _, s := range servers {
		var said []string
		for _, remark := range view.ServerRemarks(s) {
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
