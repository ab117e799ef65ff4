package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Server is the row of a server's report card, with [Unknown] for unknown figures.
type Server struct {
	Name                                                     string // untrusted
	Calls, Errors, Median, P95, Recovered, ValidArgs, Tokens string
	Catalog                                                  string // the beginning of its catalog's digest, or that there are several catalogs
	Remarks                                                  []Note
}

// Servers returns the rows of servers.
func Servers(cards []results.ServerCard) (all []Server) {
	for _, s := range cards {
		row := Server{
			Name: s.Name, Calls: text.Number(s.Calls), Errors: Rate(s.ErrorRate), Median: MS(s.MedianDurationMS), P95: MS(s.P95DurationMS),
			Recovered: Rate(s.RecoveryRate), ValidArgs: Rate(s.ValidityRate), Tokens: Unknown, Catalog: catalogText(s), Remarks: ServerRemarks(s),
		}
		if most := s.Tokens(); most != nil {
			row.Tokens = "~" + text.Number(*most)
		}
		all = append(all, row)
	}
	return all
}

func catalogText(s results.ServerCard) string {
	switch {
	case s.RugPulls > 0:
		return string(RugPull)
	case len(s.Catalogs) == 0:
		return Unknown
	case len(s.Catalogs) > 1:
		return fmt.Sprintf("%d kinds", len(s.Catalogs))
	}
	return fmt.Sprintf("%.8s", s.Catalogs[0].SHA256)
}

// Act is an action of a server other than responding.
type Act struct {
	List    string // JSON name of a list in [results.Activity]
	What    string // what it did
	Which   string // object of the action; untrusted
	How     string
	Notable bool // to be reviewed before trusting the server
}

// Text returns the act without its server.
func (a Act) Text() string {
	done := a.What + " " + a.Which
	if a.How != "" {
		done += ", " + a.How
	}
	return done
}

// Line returns the act of a server with its name.
func (a Act) Line(server string) string { return fmt.Sprintf("server %q %s", server, a.Text()) }

// FindingLine returns a finding in the texts of a server.
func FindingLine(server string, f finding.Finding) string {
	place := strings.TrimSpace(f.Of + " " + f.Key)
	if f.At != "" {
		place += ", " + f.At
	}
	return fmt.Sprintf("server %q, %s: %s", server, place, f.Excerpt)
}

// Acts returns the acts of a server. Starting programs and writing files inside its own container are not
// notable. c may be nil.
func Acts(c *results.Activity) (all []Act) {
	if c == nil {
		return nil
	}
	for _, e := range c.Secrets {
		all = append(all, Act{"secrets", "said the secret", e.Secret, fmt.Sprintf("%s in messages, %d on stderr", Times(e.Frames), e.Stderr), true})
	}
	for _, n := range c.Connections {
		all = append(all, Act{observe.Connections, "tried to connect to", n.Address, fmt.Sprintf("%s, %s", n.Network, Times(n.Count)), n.Network == observe.Unknown || n.Outside()})
	}
	for _, n := range c.Names {
		answer := "without an answer"
		if n.Answered {
			answer = "answered: it is of the trial"
		}
		all = append(all, Act{"names", "asked for the name", n.Name, fmt.Sprintf("%s, %s", Times(n.Count), answer), !n.Answered})
	}
	for _, h := range c.Egress {
		did := "asked for the host"
		if h.Refused > 0 {
			did = "was refused egress to"
		}
		all = append(all, Act{"egress", did, fmt.Sprintf("%s:%d", h.Name, h.Port), carried(h), h.Refused > 0})
	}
	for _, l := range c.Limits {
		all = append(all, Act{"limits", "ran into a limit", l, "", true})
	}
	for _, p := range c.Programs {
		all = append(all, Act{observe.Programs, "started", strings.Join(append([]string{p.Path}, p.Args[min(1, len(p.Args)):]...), " "), Times(p.Count), false})
	}
	for _, f := range c.Files {
		kind := f.Kind
		if kind == "" {
			kind = "file"
		}
		all = append(all, Act{observe.Files, strings.TrimSpace(f.What + " the " + kind), f.Path, Bytes(f.Size), false})
	}
	return all
}

func carried(h results.EgressHost) string {
	if h.Refused == h.Connections {
		return fmt.Sprintf("refused %s", Times(h.Refused))
	}
	text := fmt.Sprintf("%s, %s out, %s in", text.Count(h.Connections, "connection"), Bytes(h.Out), Bytes(h.In))
	if h.Refused > 0 {
		text += fmt.Sprintf("; refused %s", Times(h.Refused))
	}
	return text
}

// Times formats a number of times.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return text.Number(n) + " times"
}

// Note is something that a user should know before trusting a server or the figures of a run.
type Note struct {
	What  string
	Which []string // untrusted; may be empty
}

// ServerRemarks returns the remarks on a server, over all trials.
func ServerRemarks(s results.ServerCard) (all []Note) {
	in := func(trials int, did string) {
		if trials > 0 {
			all = append(all, Note{What: did + " in " + text.Count(trials, "trial")})
		}
	}
	if s.Failed > 0 {
		all = append(all, Note{What: "its crash ended " + text.Count(s.Failed, "trial")})
	}
	if n := s.Outcomes[evidence.OutcomeTimeout] + s.Outcomes[evidence.OutcomeAbandoned]; n > 0 {
		all = append(all, Note{What: text.Count(n, "call") + " not answered"})
	}
	for _, act := range Acts(s.Activity) {
		if !act.Notable {
			continue
		}
		i := slices.IndexFunc(all, func(r Note) bool { return r.What == act.What })
		if i < 0 {
			i, all = len(all), append(all, Note{What: act.What})
		}
		all[i].Which = append(all[i].Which, act.Which)
	}
	if s.Findings != nil && s.Findings.Count() > 0 {
		all = append(all, Note{What: text.Count(s.Findings.Count(), "finding") + " in the texts of its tools"})
	}
	in(s.RugPulls, "changed its tools")
	in(s.Unpinned, "not as pinned")
	return all
}

// EventKind is the kind of an event, in words.
type EventKind string

// Kinds of events.
const (
	RugPull   EventKind = "rug pull"
	Unpinned  EventKind = "not as pinned"
	Ended     EventKind = "ended"
	Unmatched EventKind = "no mock answers"
	Live      EventKind = "not from the cassette"
)

// Event is an event of a server or a mock in a trial that should be reviewed. Its texts are untrusted.
type Event struct {
	Server string // empty for the mock of a command
	Kind   EventKind
	Text   string // a sentence
}

// Events returns the events of a trial: first those of its mocks of commands, then others by server.
func Events(r results.RunResult) (all []Event) {
	for _, c := range r.Commands {
		if c.ResponseIndex < 0 {
			all = append(all, Event{"", Unmatched, fmt.Sprintf("mock of command %q: no response matches %q", c.Command, c.Args)})
		}
	}
	for _, s := range r.Servers {
		for _, of := range []struct {
			kind  EventKind
			texts []string
		}{{RugPull, s.RugPulls}, {Unpinned, s.Unpinned}, {Ended, s.Ends}, {Unmatched, s.Unmatched}, {Live, s.Live}} {
			for _, text := range of.texts {
				all = append(all, Event{s.Name, of.kind, text})
			}
		}
	}
	return all
}

// Line returns the event with its server.
func (e Event) Line() string {
	switch {
	case e.Server == "":
		return e.Text
	case e.Kind == Unmatched:
		return fmt.Sprintf("mock server %q: %s", e.Server, e.Text)
	case e.Kind == RugPull:
		return fmt.Sprintf("server %q: %s: %s", e.Server, e.Kind, e.Text)
	}
	return fmt.Sprintf("server %q: %s", e.Server, e.Text)
}

// LostServers returns lines about shared servers that died, with the trials that were running then.
func LostServers(r results.Results) []string {
	trials := map[string][]string{}
	for _, task := range Tasks(r) {
		for _, trial := range task.Trials {
			var shared []evidence.SharedServer
			for _, attempt := range trial.Earlier {
				shared = append(shared, attempt.Shared...)
			}
			for _, s := range append(shared, trial.Shared...) {
				if s.Died != "" {
					lost := fmt.Sprintf("server %q, which the run shares, died (%s) while these trials were at work", s.Name, s.Died)
					trials[lost] = append(trials[lost], trial.Name)
				}
			}
		}
	}
	var lines []string
	for _, lost := range slices.Sorted(maps.Keys(trials)) {
		lines = append(lines, lost+": "+strings.Join(trials[lost], ", "))
	}
	return lines
}
