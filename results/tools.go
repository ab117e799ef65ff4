package results

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
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

// maxTools is how many tools of a server are listed, and kept of a trial.
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

// toolCards adds up the tools of a server over trials.
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

// Listed is what a server had listed at the end of a trial, in short.
type Listed struct {
	SHA256 string `json:"sha256"`           // as [evidence.Catalog] has it
	Tools  int    `json:"tools"`            // that the agent was shown
	Hidden int    `json:"hidden,omitempty"` // that were kept from it
	Bytes  int    `json:"bytes"`            // of the shown ones: name, description and input schema as JSON without space
	Tokens int    `json:"tokens_estimate"`  // that they take of a model's context: a quarter of Bytes
}

// CardCatalog is a catalog of tools that a server had in some of the trials.
type CardCatalog struct {
	Trials int `json:"trials"`
	Listed
}

// bytesPerToken is about what tokenizers of models come to on English and JSON.
const bytesPerToken = 4

func listed(catalog evidence.Catalog) *Listed {
	l := &Listed{SHA256: catalog.SHA256}
	for _, tool := range catalog.Tools {
		switch {
		case tool.Removed > 0:
		case tool.Hidden:
			l.Hidden++
		default:
			l.Tools++
			l.Bytes += definitionBytes(tool)
		}
	}
	l.Tokens = tokens(l.Bytes)
	return l
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// definitionBytes is how long a tool is as a model is shown it.
func definitionBytes(tool evidence.Tool) int {
	shown, _ := evidence.Marshal(struct { // JSON that was read from JSON
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	}{tool.Name, tool.Description, tool.InputSchema})
	return len(shown)
}

// Marks are the places that package finding marks in what a server says of its tools.
type Marks struct {
	Places   []finding.Mark `json:"places"`
	More     int            `json:"more,omitempty"`     // that are counted and not listed; of a run, in each different catalog
	Unlooked string         `json:"unlooked,omitempty"` // why not all was looked at; empty where it was
}

// Count is how many places are marked, listed or not.
func (m Marks) Count() int { return len(m.Places) + m.More }

// add takes in those of another catalog.
func (m *Marks) add(other Marks) {
	more := fold(&m.Places, other.Places, func(m finding.Mark) any { return m }, func(*finding.Mark, finding.Mark) {}, nil)
	m.More += other.More + more
	m.Unlooked = cmp.Or(m.Unlooked, other.Unlooked)
}

// maxLooks is how many different catalogs of one server are looked at: each may take a
// second where a server means harm.
const maxLooks = 16

// catalogs keeps what each different catalog of a server comes to. Each is looked at once.
type catalogs map[string]map[[sha256.Size]byte]looked

// looked is what a catalog comes to.
type looked struct {
	tools []definition
	marks *Marks
}

// look returns what each server of a trial listed, and adds the marks of that to the
// server's report.
func (c catalogs) look(reports []ServerReport, listed []evidence.Catalog) map[string][]definition {
	tools := map[string][]definition{}
	for _, catalog := range listed {
		for i := range reports {
			if reports[i].Name == catalog.Server {
				one := c.of(catalog)
				reports[i].Marks, tools[catalog.Server] = one.marks, one.tools
			}
		}
	}
	return tools
}

func (c catalogs) of(listed evidence.Catalog) looked {
	tools := catalog.List{Kind: catalog.Tools}
	sum := sha256.New()
	for _, tool := range slices.SortedStableFunc(slices.Values(listed.Tools), byName) {
		raw := said(tool)
		_, _ = fmt.Fprintf(sum, "%x %t %t ", sha256.Sum256(raw), tool.Hidden, tool.Removed > 0) // it never fails
		tools.Entries = append(tools.Entries, catalog.Entry{Key: tool.Name, Raw: raw})
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	if one, known := c[listed.Server][key]; known {
		return one
	}
	if c[listed.Server] == nil {
		c[listed.Server] = map[[sha256.Size]byte]looked{}
	}
	one := looked{tools: definitions(listed)}
	if len(c[listed.Server]) == maxLooks {
		one.marks = &Marks{Places: []finding.Mark{}, Unlooked: fmt.Sprintf("of its different catalogs the first %d were looked at", maxLooks)}
		return one
	}
	one.marks = marksOf(tools)
	c[listed.Server][key] = one
	return one
}

func byName(a, b evidence.Tool) int { return cmp.Compare(a.Name, b.Name) }

func marksOf(tools catalog.List) *Marks {
	found := finding.Briefly(catalog.Catalog{Lists: []catalog.List{tools}})
	if len(found.Places) == 0 && found.Unlooked == "" {
		return nil
	}
	marks := &Marks{Places: []finding.Mark{}}
	marks.add(Marks{Places: found.Places, Unlooked: found.Unlooked})
	return marks
}

// said is what a server says of a tool, as far as it is on record.
func said(tool evidence.Tool) json.RawMessage {
	raw, _ := evidence.Marshal(struct { // JSON that was read from JSON
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
		Annotations json.RawMessage `json:"annotations,omitempty"`
	}{tool.Name, tool.Description, tool.InputSchema, tool.Annotations})
	return raw
}
