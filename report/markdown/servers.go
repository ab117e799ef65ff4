package markdown

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
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
		rows = append(rows, []string{code(s.Name), fmt.Sprint(s.Calls), s.ErrorRate.Text(), s.RecoveryRate.Text(), results.CallTime(s.MedianDurationMS), ofNote(s)})
	}
	p.folded(text.Count(len(all), "server"), func() { p.table(roomServers, columns, rows, "server") })
}

// ofNote says what a person should look at before they trust a server.
func ofNote(s results.ServerCard) string {
	var said []string
	if s.RugPulls > 0 {
		said = append(said, "changed its tools in "+text.Count(s.RugPulls, "trial"))
	}
	if s.Failed > 0 {
		said = append(said, "exited before it answered in "+text.Count(s.Failed, "trial"))
	}
	if s.Unpinned > 0 {
		said = append(said, "not as pinned in "+text.Count(s.Unpinned, "trial"))
	}
	if m := s.Marks; m != nil && len(m.Places) > 0 {
		said = append(said, "suspicious descriptions")
	}
	return strings.Join(said, ", ")
}

// isolation says what kept the trials apart.
func isolation(run report.Run) string {
	if !run.Isolated {
		return "**Not isolated**: agents and servers were processes of the machine."
	}
	text := fmt.Sprintf("Isolated: every trial in containers of its own, network %s", code(run.Network))
	if c := run.Certificate; c != nil {
		found := map[evidence.AttackResult]int{}
		for _, a := range c.Attacks {
			found[a.Result]++
		}
		text += fmt.Sprintf("; ways out tried: %d, open: %d", found[evidence.AttackHeld]+found[evidence.AttackGotOut], found[evidence.AttackGotOut])
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
