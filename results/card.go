package results

import (
	"time"

	"github.com/waza-isolate/waza/mcp/finding"
)

// ServerCard is how a server fared over the run's trials that count. What cannot be
// told is nil.
type ServerCard struct {
	Name   string `json:"name"`
	Trials int    `json:"trials"` // that had it
	// Failed counts trials that could not be made because it exited before it answered.
	Failed int `json:"failed_to_start,omitempty"`
	Tally
	TimedCalls       int           `json:"timed_calls"` // answered, or timed out
	MedianDurationMS *float64      `json:"median_duration_ms,omitempty"`
	P95DurationMS    *float64      `json:"p95_duration_ms,omitempty"` // of 20 calls or more
	ErrorRate        *Rate         `json:"error_rate,omitempty"`      // of the calls that were not given up
	RecoveryRate     *Rate         `json:"recovery_rate,omitempty"`   // of the incidents
	ValidityRate     *Rate         `json:"validity_rate,omitempty"`   // of the calls whose arguments could be compared with a schema
	Catalogs         []CardCatalog `json:"catalogs,omitempty"`        // the different ones that it listed
	Marks            *Marks        `json:"marks,omitempty"`           // of all these catalogs
	RugPulls         int           `json:"rug_pulls,omitempty"`       // trials in which a tool that was listed came to say another thing
	Unpinned         int           `json:"unpinned,omitempty"`        // trials in which it was not as it is pinned
	Conduct          *Conduct      `json:"conduct,omitempty"`         // over these trials; nil where nothing on record tells of it
	// Latency counts the timed calls by how long they took.
	Latency []LatencyBucket `json:"latency,omitempty"`
	// Tools are those that it listed, and others that were called: the first 200.
	Tools     []ToolCard `json:"tools,omitempty"`
	MoreCalls int        `json:"other_tools_calls,omitempty"` // of tools that are not among these
}

// Rate is a share, with Wilson's interval.
type Rate struct {
	Count int `json:"count"`
	Of    int `json:"of"`
	Interval
}

// rate is nil of nothing.
func rate(count, of int) *Rate {
	if of == 0 {
		return nil
	}
	return &Rate{count, of, wilson(count, of)}
}

// cards gathers what is told of servers in trials.
type cards struct {
	order  []string
	byName map[string]*ServerCard
	tools  map[string]*toolCards
}

// card is that of a server, which may be a new one.
func (c *cards) card(name string) *ServerCard {
	if c.byName == nil {
		c.byName, c.tools = map[string]*ServerCard{}, map[string]*toolCards{}
	}
	if c.byName[name] == nil {
		c.byName[name], c.order = &ServerCard{Name: name}, append(c.order, name)
		c.tools[name] = &toolCards{}
	}
	return c.byName[name]
}

// failed takes in that a server kept a trial from being made; an empty name is none.
func (c *cards) failed(server string) {
	if server != "" {
		c.card(server).Failed++
	}
}

// add takes in what a trial tells of servers.
func (c *cards) add(t taken) {
	for _, report := range t.result.Servers {
		card := c.card(report.Name)
		card.Trials++
		card.Tally.add(report.Tally)
		if len(report.RugPulls) > 0 {
			card.RugPulls++
		}
		if len(report.Unpinned) > 0 {
			card.Unpinned++
		}
		if report.Catalog != nil {
			card.listed(*report.Catalog, report.Marks)
		}
		if report.Conduct != nil {
			if card.Conduct == nil {
				card.Conduct = &Conduct{}
			}
			card.Conduct.add(*report.Conduct)
		}
		c.tools[report.Name].add(t.listed[report.Name], t.used[report.Name])
	}
}

func (s *ServerCard) listed(catalog Listed, marks *Marks) {
	for i := range s.Catalogs {
		if s.Catalogs[i].Listed == catalog {
			s.Catalogs[i].Trials++
			return
		}
	}
	s.Catalogs = append(s.Catalogs, CardCatalog{1, catalog})
	if marks != nil {
		if s.Marks == nil {
			s.Marks = &Marks{Places: []finding.Mark{}}
		}
		s.Marks.add(*marks)
	}
}

// all are the cards, in the order in which servers came up.
func (c *cards) all() (all []ServerCard) {
	for _, name := range c.order {
		card := *c.byName[name]
		elapsed := sorted(c.tools[name].use.elapsed())
		card.TimedCalls, card.MedianDurationMS, card.P95DurationMS = len(elapsed), median(elapsed), p95(elapsed)
		card.ErrorRate = rate(card.errors(), card.Calls-card.givenUp())
		card.RecoveryRate = rate(card.Recovered, card.Incidents)
		card.ValidityRate = rate(card.Valid, card.Valid+card.Invalid)
		card.Latency = histogram(elapsed)
		card.Tools, card.MoreCalls = c.tools[name].all()
		all = append(all, card)
	}
	return all
}

// median is that of sorted times, in milliseconds.
func median(sorted []time.Duration) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	upper := len(sorted) / 2
	lower := upper - 1 + len(sorted)%2
	return inMilliseconds((sorted[lower] + sorted[upper]) / 2)
}

// leastForP95 is how many calls must have been timed: of fewer, the 95th percentile is
// the slowest.
const leastForP95 = 20

// p95 is the least of sorted times that 95% of them do not exceed.
func p95(sorted []time.Duration) *float64 {
	if len(sorted) < leastForP95 {
		return nil
	}
	return inMilliseconds(sorted[(len(sorted)*95+99)/100-1])
}

func inMilliseconds(d time.Duration) *float64 {
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
