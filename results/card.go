package results

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/mcp/finding"
)

// ServerCard holds the figures of a server over the run's counted trials. Unknown figures are nil.
type ServerCard struct {
	Name   string `json:"name"`
	Trials int    `json:"trials"` // trials that had the server
	// Failed counts trials that ended because the server crashed.
	Failed int `json:"failed_to_start,omitempty"`
	Tally
	TimedCalls       int           `json:"timed_calls"` // answered, or timed out
	MedianDurationMS *float64      `json:"median_duration_ms,omitempty"`
	P95DurationMS    *float64      `json:"p95_duration_ms,omitempty"` // nil for fewer than 20 timed calls
	ErrorRate        *Rate         `json:"error_rate,omitempty"`      // among calls that the client did not give up
	RecoveryRate     *Rate         `json:"recovery_rate,omitempty"`   // among incidents
	ValidityRate     *Rate         `json:"validity_rate,omitempty"`   // among calls whose arguments could be validated against a schema
	Catalogs         []CardCatalog `json:"catalogs,omitempty"`        // the different catalogs that it listed
	Findings         *Findings     `json:"findings,omitempty"`        // in all these catalogs
	RugPulls         int           `json:"rug_pulls,omitempty"`       // trials in which the description of a listed tool changed
	Unpinned         int           `json:"unpinned,omitempty"`        // trials in which its catalog differed from its pin
	Activity         *Activity     `json:"activity,omitempty"`        // in all these trials; nil if nothing was recorded
	// Latency is a histogram of the durations of timed calls.
	Latency []LatencyBucket `json:"latency,omitempty"`
	// Tools are the tools that it listed, followed by others that were called: at most 200.
	Tools     []ToolCard `json:"tools,omitempty"`
	MoreCalls int        `json:"other_tools_calls,omitempty"` // calls of tools that are not in Tools
}

// Tokens returns the token estimate of the largest catalog, or nil if the server listed none.
func (s ServerCard) Tokens() *int {
	if len(s.Catalogs) == 0 {
		return nil
	}
	most := 0
	for _, c := range s.Catalogs {
		most = max(most, c.Tokens)
	}
	return &most
}

// Rate is a share with its Wilson score interval.
type Rate struct {
	Count int `json:"count"`
	Of    int `json:"of"`
	Interval
}

// rate returns count/of, or nil if of is 0.
func rate(count, of int) *Rate {
	if of == 0 {
		return nil
	}
	return &Rate{count, of, wilson(count, of)}
}

// cards collects the reports on servers over trials.
type cards struct {
	order  []string
	byName map[string]*ServerCard
	tools  map[string]*tools
}

// card returns the card of a server, creating it if necessary.
func (c *cards) card(name string) *ServerCard {
	if c.byName == nil {
		c.byName, c.tools = map[string]*ServerCard{}, map[string]*tools{}
	}
	if c.byName[name] == nil {
		c.byName[name], c.order = &ServerCard{Name: name}, append(c.order, name)
		c.tools[name] = &tools{}
	}
	return c.byName[name]
}

// failed counts a trial that a server broke. It ignores an empty name.
func (c *cards) failed(server string) {
	if server != "" {
		c.card(server).Failed++
	}
}

// add adds the servers of a trial.
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
			card.listed(*report.Catalog, report.Findings)
		}
		if report.Activity != nil {
			if card.Activity == nil {
				card.Activity = &Activity{}
			}
			card.Activity.add(*report.Activity)
		}
		tools := c.tools[report.Name]
		for _, definition := range t.listed[report.Name] {
			tools.add(definition)
		}
		if used := t.used[report.Name]; used != nil {
			tools.addAll(used)
		}
	}
}

func (s *ServerCard) listed(catalog Listed, findings *Findings) {
	for i := range s.Catalogs {
		if s.Catalogs[i].Listed == catalog {
			s.Catalogs[i].Trials++
			return
		}
	}
	s.Catalogs = append(s.Catalogs, CardCatalog{1, catalog})
	if findings != nil {
		if s.Findings == nil {
			s.Findings = &Findings{Places: []finding.Finding{}}
		}
		s.Findings.add(*findings)
	}
}

// all returns the cards, in the order in which the servers first appeared.
func (c *cards) all() (all []ServerCard) {
	for _, name := range c.order {
		card := *c.byName[name]
		elapsed := slices.Sorted(slices.Values(c.tools[name].elapsed()))
		card.TimedCalls, card.MedianDurationMS, card.P95DurationMS = len(elapsed), median(elapsed), p95(elapsed)
		card.ErrorRate = rate(card.with(evidence.Outcome.Failed), card.Calls-card.with(evidence.Outcome.GivenUp))
		card.RecoveryRate = rate(card.Recovered, card.Incidents)
		card.ValidityRate = rate(card.Valid, card.Valid+card.Invalid)
		card.Latency = histogram(elapsed)
		card.Tools, card.MoreCalls = c.tools[name].cards()
		all = append(all, card)
	}
	return all
}

// median returns the median of sorted times in milliseconds, or nil if there are none.
func median(sorted []time.Duration) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	upper := len(sorted) / 2
	lower := upper - 1 + len(sorted)%2
	return inMilliseconds((sorted[lower] + sorted[upper]) / 2)
}

// leastForP95 is the minimum number of timed calls for a 95th percentile. With fewer calls it would just be
// the slowest one.
const leastForP95 = 20

// p95 returns, in milliseconds, the smallest of sorted times that 95% of them do not exceed; nil if there are
// too few.
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

// Tally counts calls of a server.
type Tally struct {
	Calls        int                      `json:"calls"`
	Outcomes     map[evidence.Outcome]int `json:"outcomes,omitempty"`
	Incidents    int                      `json:"incidents,omitempty"`
	Recovered    int                      `json:"recovered,omitempty"`         // incidents that ended in a success
	Valid        int                      `json:"valid_arguments,omitempty"`   // calls whose arguments match the tool's schema
	Invalid      int                      `json:"invalid_arguments,omitempty"` // calls whose arguments do not match; for other calls it is unknown
	UnknownTools int                      `json:"unknown_tools,omitempty"`     // calls of a tool that the server had not listed
}

// tally counts the calls of one server in one trial.
func tally(calls []evidence.Call) Tally {
	t := Tally{Calls: len(calls)}
	for _, call := range calls {
		t.count(call.Outcome, 1)
		switch {
		case call.Valid == nil:
		case *call.Valid:
			t.Valid++
		default:
			t.Invalid++
		}
		if call.Known != nil && !*call.Known {
			t.UnknownTools++
		}
	}
	for _, incident := range capture.Incidents(calls) {
		t.Incidents++
		if last := incident[len(incident)-1]; last.Outcome == evidence.OutcomeOK {
			t.Recovered++
		}
	}
	return t
}

func (t *Tally) count(outcome evidence.Outcome, calls int) {
	if t.Outcomes == nil {
		t.Outcomes = map[evidence.Outcome]int{}
	}
	t.Outcomes[outcome] += calls
}

func (t *Tally) add(other Tally) {
	t.Calls += other.Calls
	for outcome, calls := range other.Outcomes {
		t.count(outcome, calls)
	}
	t.Incidents += other.Incidents
	t.Recovered += other.Recovered
	t.Valid += other.Valid
	t.Invalid += other.Invalid
	t.UnknownTools += other.UnknownTools
}

// with counts the calls whose outcomes satisfy is.
func (t Tally) with(is func(evidence.Outcome) bool) (count int) {
	for outcome, calls := range t.Outcomes {
		if is(outcome) {
			count += calls
		}
	}
	return count
}

// latency returns the time until a call was answered or timed out. It returns false for calls that ended
// otherwise, and for calls that waited for input from the client.
func latency(call evidence.Call) (time.Duration, bool) {
	switch call.Outcome {
	case evidence.OutcomeOK, evidence.OutcomeToolError, evidence.OutcomeProtocolError, evidence.OutcomeTimeout:
		return call.End.Sub(call.Start), call.Rounds == 0 && !call.End.Before(call.Start)
	}
	return 0, false
}

// LatencyBucket counts the calls with a duration of at most UpToMS and more than the previous bucket's
// UpToMS.
type LatencyBucket struct {
	UpToMS float64 `json:"up_to_ms"` // 0 in the last, which has no bound
	Calls  int     `json:"calls"`
}

// latencyBounds returns the upper bounds of buckets: 1, 2 and 5 of each power of ten, from 0.1 ms to 100 s.
func latencyBounds() (bounds []time.Duration) {
	for unit := 100 * time.Microsecond; unit < 100*time.Second; unit *= 10 {
		bounds = append(bounds, unit, 2*unit, 5*unit)
	}
	return append(bounds, 100*time.Second)
}

// histogram counts sorted times in buckets, from the first to the last bucket with a time.
func histogram(sorted []time.Duration) (buckets []LatencyBucket) {
	if len(sorted) == 0 {
		return nil
	}
	left := sorted
	for _, bound := range latencyBounds() {
		n, _ := slices.BinarySearch(left, bound+1)
		if n > 0 || buckets != nil {
			buckets = append(buckets, LatencyBucket{*inMilliseconds(bound), n})
		}
		if left = left[n:]; len(left) == 0 {
			return buckets
		}
	}
	return append(buckets, LatencyBucket{Calls: len(left)})
}
