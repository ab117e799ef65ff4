package markdown

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// servers has a row for each server, folded.
func (p *page) servers(all []results.ServerCard) {
	if len(all) == 0 {
		return
	}
	columns := []column{{"Server", false}, {"Calls", true}, {"Errors", true}, {"Recovered", true}, {"Median", true}, {"Of note", false}}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{code(s.Name), fmt.Sprint(s.Calls), view.Rate(s.ErrorRate), view.Rate(s.RecoveryRate), view.CallTime(s.MedianDurationMS), ofNote(s)})
	}
	p.folded(text.Count(len(all), "server"), func() { p.table(roomServers, columns, rows, "server") })
}

// maxNoted is how many of a kind a server's row names.
const maxNoted = 3

// ofNote says what a person should look at before they trust a server.
func ofNote(s results.ServerCard) string {
	var said []string
	for _, remark := range view.Remarks(s) {
		said = append(said, strings.TrimSpace(remark.What+" "+strings.Join(text.Some(remark.Which, maxNoted, code), ", ")))
	}
	return strings.Join(said, ", ")
}

// isolation says what kept the trials apart.
func isolation(run view.Run) string {
	if !run.Isolated {
		return "**Not isolated**: agents and servers were processes of the machine."
	}
	text := fmt.Sprintf("Isolated: every trial in containers of its own, network %s", code(run.Network))
	if c := run.Certificate; c != nil {
		open := len(c.With(evidence.AttackGotOut))
		text += fmt.Sprintf("; ways out tried: %d, open: %d", len(c.With(evidence.AttackHeld))+open, open)
	}
	if weak := run.Results.Config.Weak; len(weak) > 0 {
		text += fmt.Sprintf("; **weak**: %s got out", code(strings.Join(weak, ", ")))
	}
	return text + missing(run.Guarantees) + "."
}

// maxMissing is how many guarantees that were not in force are named.
const maxMissing = 3

func missing(g *evidence.Guarantees) string {
	if g == nil || len(g.Missing) == 0 {
		return ""
	}
	return "; **not enforced**: " + strings.Join(text.Some(g.Missing, maxMissing, code), ", ")
}
