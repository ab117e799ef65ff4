package report

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// Servers is the page of how servers fared in a run.
func Servers(r Run, l Links) Page {
	p := serversPage{place: place{l, PathServers}, Name: r.Results.EvalName}
	for i, card := range r.Results.Servers {
		p.Servers = append(p.Servers, serverOf(card, i, r.Results.Tasks))
	}
	return Page{ID: l.ID(PathServers), Title: "Servers", name: "servers", data: p}
}

type serversPage struct {
	place
	Name    string // of the eval
	Servers []server
}

// Of is where a server stands on the page.
func (p serversPage) Of(server string) template.URL { return p.Here(serverAnchor(server)) }

// ID is the id of a server's part of the page, or of what is behind it there.
func (p serversPage) ID(server string, behind ...string) string {
	return p.Links.ID(PathServers, append([]string{serverAnchor(server)}, behind...)...)
}

func serverAnchor(server string) string { return "server-" + server }

// lanes is how many colours servers have.
const lanes = 8

// server is a server on the page.
type server struct {
	results.ServerCard
	Lane     string // class of its colour
	Outcomes strip
	Latency  histogram
	Tools    []toolRow
	Idle     int // tools that were listed and that nobody called
	Became   list[fate]
	Deeds    []deed // worth a look
	Others   []deed
}

func serverOf(card results.ServerCard, i int, tasks []results.Task) server {
	s := server{ServerCard: card, Lane: fmt.Sprintf("s%d", i%lanes), Latency: histogramOf(card.Latency)}
	for _, outcome := range outcomes() {
		s.Outcomes.add(outcomeOf(outcome), card.Outcomes[outcome])
	}
	s.Outcomes = s.Outcomes.scaled()
	most := 0
	for _, tool := range card.Tools {
		most = max(most, tool.Calls)
	}
	for _, tool := range card.Tools {
		s.Tools = append(s.Tools, toolRowOf(tool, most))
		if tool.Calls == 0 && !tool.Hidden {
			s.Idle++
		}
	}
	s.Became = listOf(became(card.Name, tasks))
	s.Deeds, s.Others = deeds(card.Conduct)
	return s
}

// outcomes are those of calls, the best first.
func outcomes() []evidence.Outcome {
	return []evidence.Outcome{
		evidence.OutcomeOK, evidence.OutcomeToolError, evidence.OutcomeProtocolError, evidence.OutcomeTransportError,
		evidence.OutcomeTimeout, evidence.OutcomeCancelled, evidence.OutcomeAbandoned,
	}
}

// Tokens is the estimate for the largest catalog; nil where nothing was listed.
func (s server) Tokens() *int {
	if len(s.Catalogs) == 0 {
		return nil
	}
	most := 0
	for _, c := range s.Catalogs {
		most = max(most, c.Tokens)
	}
	return &most
}

// toolRow is a tool in a server's table.
type toolRow struct {
	results.ToolCard
	From, Wide float64 // of a bar of its calls that ends at 100
}

func toolRowOf(t results.ToolCard, most int) toolRow {
	wide := 100 * float64(t.Calls) / float64(max(most, 1))
	return toolRow{t, 100 - wide, wide}
}

// MarkKinds is how many of the places that are listed are marked for what.
func (s server) MarkKinds() string {
	var kinds []string
	counts := map[string]int{}
	for _, m := range s.Marks.Places {
		if counts[string(m.Kind)]++; counts[string(m.Kind)] == 1 {
			kinds = append(kinds, string(m.Kind))
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// Notable is how much of a server is worth a person's look.
func (s server) Notable() int {
	n := len(s.Deeds) + s.Became.Total()
	if s.Marks != nil {
		n += len(s.Marks.Places) + s.Marks.More
	}
	return n
}
