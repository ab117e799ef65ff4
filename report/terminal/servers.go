package terminal

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// serverColumns are those of the table of servers; where there is no room, the last are
// left out first.
var serverColumns = []string{"SERVER", "CALLS", "ERRORS", "P50", "P95", "RECOVERED", "VALID ARGS", "TOKENS", "CATALOG"}

// serverTable has a line for each server. Columns that width has no room for are left
// out, and the header says so.
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
		s.Name, fmt.Sprint(s.Calls), view.Rate(s.ErrorRate), view.CallTime(s.MedianDurationMS), view.CallTime(s.P95DurationMS),
		view.Rate(s.RecoveryRate), view.Rate(s.ValidityRate), tokens(s), catalog(s),
	}
}

// tokens is the estimate for the largest catalog.
func tokens(s results.ServerCard) string {
	most := 0
	for _, c := range s.Catalogs {
		most = max(most, c.Tokens)
	}
	if len(s.Catalogs) == 0 {
		return view.Unknown
	}
	return fmt.Sprintf("~%d", most)
}

// catalog is the beginning of the catalog's hash, where there is one catalog alone.
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

// maxRemarked is how many of a kind a line about a server names.
const maxRemarked = 3

// remarkLines has a line for each server that did something which a person may want to
// know before they trust it. Lines are cut to width.
func remarkLines(servers []results.ServerCard, width int) string {
	var out strings.Builder
	for _, s := range servers {
		var said []string
		for _, remark := range view.Remarks(s) {
			var which []string
			for _, name := range remark.Which {
				which = append(which, printable(name))
			}
			said = append(said, strings.TrimSpace(remark.What+" "+strings.Join(text.Few(which, maxRemarked), ", ")))
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

// printable is a name that somebody else chose, as a terminal may get it.
func printable(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` || strings.Contains(name, " ") {
		return quoted
	}
	return name
}
