package report

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Servers returns the page about the servers of a run.
func Servers(r view.Run, l Links) Page {
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

// Rated reports whether there are shares of calls, which have intervals.
func (p serversPage) Rated() bool {
	return slices.ContainsFunc(p.Servers, func(s server) bool { return s.ErrorRate != nil })
}

// Of returns the address of a server's section.
func (p serversPage) Of(server string) template.URL { return p.Here(serverAnchor(server)) }

// ID returns the id of a server's section, or of an element in it.
func (p serversPage) ID(server string, behind ...string) string {
	return p.Links.ID(PathServers, append([]string{serverAnchor(server)}, behind...)...)
}

func serverAnchor(server string) string { return "server-" + server }

// lanes is the number of colors for servers.
const lanes = 8

// server is a server on the page.
type server struct {
	results.ServerCard
	Lane     string // CSS class of its color
	Outcomes strip
	Latency  histogram
	Tools    []toolRow
	Idle     int // number of listed tools that were never called
	Became   list[serverOutcome]
	Acts     []view.Act // only notable ones
	Others   []view.Act
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
	for _, act := range view.Acts(card.Activity) {
		if act.Notable {
			s.Acts = append(s.Acts, act)
		} else {
			s.Others = append(s.Others, act)
		}
	}
	return s
}

// outcomes returns the outcomes of calls, the best first.
func outcomes() []evidence.Outcome {
	return []evidence.Outcome{
		evidence.OutcomeOK, evidence.OutcomeToolError, evidence.OutcomeProtocolError, evidence.OutcomeTransportError,
		evidence.OutcomeTimeout, evidence.OutcomeCancelled, evidence.OutcomeAbandoned,
	}
}

// toolRow is a tool in a server's table.
type toolRow struct {
	results.ToolCard
	From, Wide float64 // position of a bar for its calls that ends at 100
}

func toolRowOf(t results.ToolCard, most int) toolRow {
	wide := 100 * float64(t.Calls) / float64(max(most, 1))
	return toolRow{t, 100 - wide, wide}
}

// FindingKinds counts the listed findings by kind.
func (s server) FindingKinds() string {
	var kinds []string
	counts := map[string]int{}
	for _, m := range s.Findings.Places {
		if counts[string(m.Kind)]++; counts[string(m.Kind)] == 1 {
			kinds = append(kinds, string(m.Kind))
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// Notable returns the number of notable items.
func (s server) Notable() int {
	n := len(s.Acts) + s.Became.Total()
	if s.Findings != nil {
		n += s.Findings.Count()
	}
	return n
}

// Quiet reports whether no call failed and the server did nothing notable.
func (s server) Quiet() bool {
	return s.Notable() == 0 && (s.ErrorRate == nil || s.ErrorRate.Count == 0)
}

// serverOutcome is an event of a server with the trials in which it occurred.
type serverOutcome struct {
	Mark   Mark
	Why    string
	Trials []trialName
}

// trialName names a trial for display and for a link.
type trialName struct {
	Task, Name string
	Number     int
}

// fewTrials is the number of trials listed for an event.
const fewTrials = 4

// Named returns the first trials, and More the number of others.
func (o serverOutcome) Named() []trialName { return o.Trials[:min(len(o.Trials), fewTrials)] }

func (o serverOutcome) More() int { return len(o.Trials) - len(o.Named()) }

// became returns the events of a server.
func became(server string, tasks []results.Task) (all []serverOutcome) {
	signs := map[view.EventKind]string{view.RugPull: "broke", view.Unpinned: "broke", view.Ended: "error", view.Unmatched: "none", view.Live: "error"}
	at := map[view.Event]int{}
	for _, task := range tasks {
		for _, run := range task.Runs {
			for _, event := range view.Events(run) {
				if event.Server != server {
					continue
				}
				i, known := at[event]
				if !known {
					i = len(all)
					at[event], all = i, append(all, serverOutcome{Mark: Mark{signs[event.Kind], string(event.Kind), "warn"}, Why: event.Text})
				}
				all[i].Trials = append(all[i].Trials, trialName{task.TestID, task.DisplayName, run.RunNumber})
			}
		}
	}
	return all
}

// Omitted returns sentences about what was counted but not listed, and what could not be
// observed.
func (s server) Omitted() (said []string) {
	if s.Activity == nil {
		return []string{"What else it did is not recorded."}
	}
	for _, list := range slices.Sorted(maps.Keys(s.Activity.More)) {
		if !s.foldsMore(list) {
			said = append(said, moreOf(list, s.Activity.More[list]))
		}
	}
	for _, list := range slices.Sorted(maps.Keys(s.Activity.Unseen)) {
		said = append(said, fmt.Sprintf("Not watched: %s, because %s.", list, s.Activity.Unseen[list]))
	}
	return said
}

// MoreOthers returns sentences about unlisted items in the other lists.
func (s server) MoreOthers() (said []string) {
	for _, list := range slices.Sorted(maps.Keys(s.Activity.More)) {
		if s.foldsMore(list) {
			said = append(said, moreOf(list, s.Activity.More[list]))
		}
	}
	return said
}

// foldsMore reports whether the number of unlisted items is shown with the other lists.
func (s server) foldsMore(list string) bool {
	return len(s.Others) > 0 && slices.Contains([]string{observe.Files, observe.Programs, observe.Missing}, list)
}

// moreOf returns a sentence about the unlisted items of a list.
func moreOf(list string, n int) string {
	switch list {
	case observe.Missing:
		return fmt.Sprintf("It looked %s for a program that is not there.", view.Times(n))
	case observe.Files:
		list = "the files that it changed"
	case observe.Programs:
		list = "the programs that it started"
	}
	return fmt.Sprintf("And %s more of %s.", text.Number(n), list)
}
