package results

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// ToolCard is how a tool of a server fared over the run's trials that count. A tool stands
// here because the server listed it or because somebody called it.
type ToolCard struct {
	Name             string   `json:"name"`
	Listed           int      `json:"listed"`                    // trials at whose end the server had it listed
	Hidden           bool     `json:"hidden,omitempty"`          // it was kept from the agent
	Tokens           int      `json:"tokens_estimate,omitempty"` // that its longest definition takes of a model's context
	Calls            int      `json:"calls"`
	Errors           int      `json:"errors,omitempty"`
	Unknown          int      `json:"unknown,omitempty"` // calls before or without its being listed
	MedianDurationMS *float64 `json:"median_duration_ms,omitempty"`
}

// maxTools is how many tools of a server are told, and kept of a trial.
const maxTools = 200

// toolUse is what calls of a tool came to.
type toolUse struct {
	calls, errors, unknown int
	elapsed                []time.Duration
}

func (u *toolUse) call(call evidence.Call) {
	u.calls++
	if call.Outcome.Failed() {
		u.errors++
	}
	if call.Known != nil && !*call.Known {
		u.unknown++
	}
	if took, ok := latency(call); ok {
		u.elapsed = append(u.elapsed, took)
	}
}

func (u *toolUse) add(other toolUse) {
	u.calls, u.errors, u.unknown = u.calls+other.calls, u.errors+other.errors, u.unknown+other.unknown
	u.elapsed = append(u.elapsed, other.elapsed...)
}

// serverUse is what calls of a server came to: of its tools in the order in which they were
// first called, and of those for which there was no room.
type serverUse struct {
	names  []string
	tools  map[string]*toolUse
	others toolUse
}

func (s *serverUse) of(tool string) *toolUse {
	tool = shorten(tool, maxName)
	use := s.tools[tool]
	switch {
	case use != nil:
		return use
	case len(s.names) == maxTools:
		return &s.others
	case s.tools == nil:
		s.tools = map[string]*toolUse{}
	}
	use = &toolUse{}
	s.names, s.tools[tool] = append(s.names, tool), use
	return use
}

// add takes in another trial's.
func (s *serverUse) add(other serverUse) {
	for _, name := range other.names {
		s.of(name).add(*other.tools[name])
	}
	s.others.add(other.others)
}

// elapsed is how long all calls took.
func (s *serverUse) elapsed() (all []time.Duration) {
	for _, name := range s.names {
		all = append(all, s.tools[name].elapsed...)
	}
	return append(all, s.others.elapsed...)
}

// used is what a trial's calls came to, by server.
func used(trial Trial) map[string]*serverUse {
	servers := map[string]*serverUse{}
	for _, call := range trial.Calls {
		if servers[call.Server] == nil {
			servers[call.Server] = &serverUse{}
		}
		servers[call.Server].of(call.Tool).call(call)
	}
	return servers
}

// definition is what a server's list says of a tool, in short.
type definition struct {
	name   string
	tokens int
	hidden bool
}

// definitions are the first tools that a catalog has in force.
func definitions(catalog evidence.Catalog) (all []definition) {
	for _, tool := range catalog.Tools {
		if tool.Removed == 0 && len(all) < maxTools {
			all = append(all, definition{shorten(tool.Name, maxName), tokens(definitionBytes(tool)), tool.Hidden})
		}
	}
	return all
}

// definer keeps the definitions of alike catalogs once.
type definer map[string]map[Listed][]definition

// define is what each server of a trial listed.
func (d definer) define(reports []ServerReport, catalogs []evidence.Catalog) map[string][]definition {
	servers := map[string][]definition{}
	for _, report := range reports {
		for _, catalog := range catalogs {
			if report.Catalog == nil || catalog.Server != report.Name {
				continue
			}
			if d[report.Name] == nil {
				d[report.Name] = map[Listed][]definition{}
			}
			known, ok := d[report.Name][*report.Catalog]
			if !ok {
				known = definitions(catalog)
				d[report.Name][*report.Catalog] = known
			}
			servers[report.Name] = known
		}
	}
	return servers
}

// toolCards gathers what is told of a server's tools in trials.
type toolCards struct {
	names  []string
	listed map[string]*ToolCard
	use    serverUse
}

func (t *toolCards) add(listed []definition, use *serverUse) {
	if t.listed == nil {
		t.listed = map[string]*ToolCard{}
	}
	for _, tool := range listed {
		card := t.listed[tool.name]
		if card == nil {
			if len(t.names) == maxTools {
				continue
			}
			card = &ToolCard{Name: tool.name}
			t.names, t.listed[tool.name] = append(t.names, tool.name), card
		}
		card.Listed++
		card.Tokens, card.Hidden = max(card.Tokens, tool.tokens), card.Hidden || tool.hidden
	}
	if use != nil {
		t.use.add(*use)
	}
}

// all are the tools that were listed and then the others that were called, up to maxTools,
// and how many calls are of none of these.
func (t *toolCards) all() (all []ToolCard, more int) {
	more = t.use.others.calls
	for _, name := range t.names {
		card := *t.listed[name]
		if use := t.use.tools[name]; use != nil {
			card.called(*use)
		}
		all = append(all, card)
	}
	for _, name := range t.use.names {
		use := t.use.tools[name]
		switch {
		case t.listed[name] != nil:
		case len(all) == maxTools:
			more += use.calls
		default:
			card := ToolCard{Name: name}
			card.called(*use)
			all = append(all, card)
		}
	}
	return all, more
}

func (c *ToolCard) called(use toolUse) {
	c.Calls, c.Errors, c.Unknown = use.calls, use.errors, use.unknown
	c.MedianDurationMS = median(sorted(use.elapsed))
}
