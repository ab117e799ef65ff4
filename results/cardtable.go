package results

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// unknown stands in a table where there is no figure.
const unknown = "n/a"

// serverColumns are those of the table of servers; where there is no room, the last are
// left out first.
var serverColumns = []string{"SERVER", "CALLS", "ERRORS", "P50", "P95", "RECOVERED", "VALID ARGS", "TOKENS", "CATALOG"}

// serverTable has a line for each server. Columns that width has no room for are left
// out, and the header says so.
func (r Results) serverTable(width int) string {
	if len(r.Servers) == 0 {
		return ""
	}
	var rows [][]string
	for _, s := range r.Servers {
		rows = append(rows, s.row())
	}
	all := columnsOf(serverColumns, rows)
	for i := 1; i < len(all); i++ {
		all = figures(all, i)
	}
	return tableWithin(all, width)
}

// tableWithin is a table of at most so many columns of a terminal: the last of its own
// that there is no room for are left out, which the header says, and then the first is
// shortened.
func tableWithin(columns []column, width int) string {
	shown, more := roomy(columns, width)
	table := tableOf(fitted(shown, 0, width-utf8.RuneCountInString(more)))
	return strings.Replace(table, "\n", more+"\n", 1)
}

// roomy are the columns that there is room for with the first as short as can be, and
// what the header says of others.
func roomy(columns []column, width int) (shown []column, more string) {
	least := func() int {
		return min(columns[0].width(), minTask) + columnsWidth(columns) - columns[0].width() + utf8.RuneCountInString(more)
	}
	for width > 0 && len(columns) > 1 && least() > width {
		columns, more = columns[:len(columns)-1], " …"
	}
	return columns, more
}

func (s ServerCard) row() []string {
	return []string{
		s.Name, fmt.Sprint(s.Calls), s.ErrorRate.Text(), CallTime(s.MedianDurationMS), CallTime(s.P95DurationMS),
		s.RecoveryRate.Text(), s.ValidityRate.Text(), s.tokens(), s.catalog(),
	}
}

// Text is how many of how many; nil is not known.
func (r *Rate) Text() string {
	if r == nil {
		return unknown
	}
	return fmt.Sprintf("%d/%d", r.Count, r.Of)
}

// CallTime is how long calls take, to a tenth of a millisecond where they are quick; nil is
// not known.
func CallTime(ms *float64) string {
	switch {
	case ms == nil:
		return unknown
	case *ms < 10:
		return fmt.Sprintf("%.1fms", *ms)
	case *ms < 10_000:
		return fmt.Sprintf("%.0fms", *ms)
	}
	return fmt.Sprintf("%.1fs", *ms/1000)
}

// tokens is the estimate for the largest catalog.
func (s ServerCard) tokens() string {
	most := 0
	for _, c := range s.Catalogs {
		most = max(most, c.Tokens)
	}
	if len(s.Catalogs) == 0 {
		return unknown
	}
	return fmt.Sprintf("~%d", most)
}

// catalog is the beginning of the catalog's hash, where there is one catalog alone.
func (s ServerCard) catalog() string {
	switch {
	case s.RugPulls > 0:
		return "rug pull"
	case len(s.Catalogs) == 0:
		return unknown
	case len(s.Catalogs) > 1:
		return fmt.Sprintf("%d kinds", len(s.Catalogs))
	}
	return fmt.Sprintf("%.8s", s.Catalogs[0].SHA256)
}

// evalLine says in a line, or as many as width asks for, how reliable the tasks are.
func (r Results) evalLine(width int) string {
	s := r.Summary.Statistics
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
		of   *Estimate
	}{{"score", s.Score}, {"selection", s.Selection}, {"params", s.Params}} {
		if e.of != nil {
			said = append(said, fmt.Sprintf("%s %.2f [%.2f, %.2f]", e.name, e.of.Mean, e.of.Lower, e.of.Upper))
		}
	}
	return wrap(said, width)
}

// consistencyText names the counts that are not 0.
func consistencyText(c ConsistencyCounts) string {
	var said []string
	for _, kind := range []struct {
		tasks int
		name  Consistency
	}{{c.Always, Always}, {c.Mixed, Mixed}, {c.Never, Never}} {
		if kind.tasks > 0 {
			said = append(said, fmt.Sprintf("%d %s", kind.tasks, kind.name))
		}
	}
	return "tasks pass: " + strings.Join(said, ", ")
}

// wrap puts phrases on lines of at most width columns, where each of them fits.
func wrap(phrases []string, width int) string {
	var out strings.Builder
	used := 0
	for _, phrase := range phrases {
		long := utf8.RuneCountInString(phrase)
		switch {
		case used == 0:
		case width > 0 && used+len("  ")+long > width:
			out.WriteString("\n")
			used = 0
		default:
			out.WriteString("  ")
			used += len("  ")
		}
		out.WriteString(phrase)
		used += long
	}
	return out.String() + "\n"
}
