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

// ToolCard summarizes a tool of a server over the counted trials of a run. Tools that were listed or called
// have a card.
type ToolCard struct {
	Name             string   `json:"name"`
	Listed           int      `json:"listed"`                    // number of trials at whose end the server listed it
	Hidden           bool     `json:"hidden,omitempty"`          // it was hidden from the agent
	Tokens           int      `json:"tokens_estimate,omitempty"` // estimated number of tokens of its longest definition in a model's context
	Calls            int      `json:"calls"`
	Errors           int      `json:"errors,omitempty"`
	Unknown          int      `json:"unknown,omitempty"` // calls made when it was not listed
	MedianDurationMS *float64 `json:"median_duration_ms,omitempty"`
}

// maxTools is the maximum number of tools that are listed of a server, and kept of a trial.
const maxTools = 200

// tool collects the figures of a tool over one or more definitions, calls and trials.
type tool struct {
	ToolCard // without its median
	elapsed  []time.Duration
}

func (t *tool) add(other tool) {
	t.Listed, t.Hidden, t.Tokens = t.Listed+other.Listed, t.Hidden || other.Hidden, max(t.Tokens, other.Tokens)
	t.Calls, t.Errors, t.Unknown = t.Calls+other.Calls, t.Errors+other.Errors, t.Unknown+other.Unknown
	t.elapsed = append(t.elapsed, other.elapsed...)
}

// called returns the figures for a call.
func called(call evidence.Call) tool {
	t := tool{ToolCard: ToolCard{Name: shorten(call.Tool, maxName), Calls: 1}}
	if call.Outcome.Failed() {
		t.Errors = 1
	}
	if call.Known != nil && !*call.Known {
		t.Unknown = 1
	}
	if took, ok := latency(call); ok {
		t.elapsed = []time.Duration{took}
	}
	return t
}

// tools holds the tools of a server in order of first appearance, up to maxTools, and the calls of other
// tools.
type tools struct {
	names  []string
	byName map[string]*tool
	others tool
}

func (t *tools) add(one tool) {
	known := t.byName[one.Name]
	if known == nil && len(t.names) == maxTools {
		known = &t.others
	}
	if known == nil {
		if t.byName == nil {
			t.byName = map[string]*tool{}
		}
		known = &tool{ToolCard: ToolCard{Name: one.Name}}
		t.names, t.byName[one.Name] = append(t.names, one.Name), known
	}
	known.add(one)
}

// addAll adds the tools of another trial.
func (t *tools) addAll(other *tools) {
	for _, name := range other.names {
		t.add(*other.byName[name])
	}
	t.others.add(other.others)
}

// elapsed returns the durations of all timed calls.
func (t *tools) elapsed() (all []time.Duration) {
	for _, name := range t.names {
		all = append(all, t.byName[name].elapsed...)
	}
	return append(all, t.others.elapsed...)
}

// cards returns the listed tools followed by the others that were called, and the number of calls of tools
// that are not returned.
func (t *tools) cards() (all []ToolCard, more int) {
	var others []ToolCard
	for _, name := range t.names {
		card := t.byName[name].ToolCard
		card.MedianDurationMS = median(slices.Sorted(slices.Values(t.byName[name].elapsed)))
		if card.Listed > 0 {
			all = append(all, card)
		} else {
			others = append(others, card)
		}
	}
	return append(all, others...), t.others.Calls
}

// used returns the tools that were called in a trial, by server.
func used(trial Trial) map[string]*tools {
	servers := map[string]*tools{}
	for _, call := range trial.Calls {
		if call.Fault != "" {
			continue // its outcome is not the tool's
		}
		if servers[call.Server] == nil {
			servers[call.Server] = &tools{}
		}
		servers[call.Server].add(called(call))
	}
	return servers
}

// definitions returns the first tools that a catalog lists in the end.
func definitions(catalog evidence.Catalog) (all []tool) {
	for _, t := range catalog.Tools {
		if t.Removed == 0 && len(all) < maxTools {
			all = append(all, tool{ToolCard: ToolCard{Name: shorten(t.Name, maxName), Listed: 1, Hidden: t.Hidden, Tokens: tokens(definitionBytes(t))}})
		}
	}
	return all
}

// Listed summarizes the tools that a server listed by the end of a trial.
type Listed struct {
	SHA256 string `json:"sha256"`           // as in [evidence.Catalog]
	Tools  int    `json:"tools"`            // number of tools shown to the agent
	Hidden int    `json:"hidden,omitempty"` // number of tools hidden from the agent
	Bytes  int    `json:"bytes"`            // size of the shown tools: name, description and input schema as JSON without white space
	Tokens int    `json:"tokens_estimate"`  // estimated number of tokens in a model's context: a quarter of Bytes
}

// CardCatalog is a catalog of tools that a server had in some of the trials.
type CardCatalog struct {
	Trials int `json:"trials"`
	Listed
}

// bytesPerToken is a typical number of bytes per token for English text and JSON.
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

// definitionBytes returns the size of a tool's definition as a model gets it.
func definitionBytes(tool evidence.Tool) int {
	tool.Annotations = nil
	return len(said(tool))
}

// Findings are the findings in the texts of a server's tools; see package finding.
type Findings struct {
	Places     []finding.Finding `json:"places"`
	More       int               `json:"more,omitempty"`       // number of findings that are not listed; for a run, of each different catalog
	Incomplete string            `json:"incomplete,omitempty"` // why not all texts were searched; empty if they were
}

// Count returns the number of findings, listed or not.
func (m Findings) Count() int { return len(m.Places) + m.More }

// add adds the findings in another catalog.
func (m *Findings) add(other Findings) {
	more := fold(&m.Places, other.Places, func(m finding.Finding) any { return m }, func(*finding.Finding, finding.Finding) {}, nil)
	m.More += other.More + more
	m.Incomplete = cmp.Or(m.Incomplete, other.Incomplete)
}

// maxLooks limits the number of different catalogs per server that are examined. A hostile
// catalog may take a second.
const maxLooks = 16

// catalogs caches the examination of each different catalog of a server.
type catalogs map[string]map[[sha256.Size]byte]looked

// looked is the result of examining a catalog.
type looked struct {
	tools    []tool
	findings *Findings
}

// look returns the listed tools of each server of a trial, and adds the findings to the server's report.
func (c catalogs) look(reports []ServerReport, listed []evidence.Catalog) map[string][]tool {
	tools := map[string][]tool{}
	for _, catalog := range listed {
		for i := range reports {
			if reports[i].Name == catalog.Server {
				one := c.of(catalog)
				reports[i].Findings, tools[catalog.Server] = one.findings, one.tools
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
		_, _ = fmt.Fprintf(sum, "%x %t %t ", sha256.Sum256(raw), tool.Hidden, tool.Removed > 0) // a hash never fails
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
		one.findings = &Findings{Places: []finding.Finding{}, Incomplete: fmt.Sprintf("of its different catalogs the first %d were looked at", maxLooks)}
		return one
	}
	one.findings = findingsOf(tools)
	c[listed.Server][key] = one
	return one
}

func byName(a, b evidence.Tool) int { return cmp.Compare(a.Name, b.Name) }

func findingsOf(tools catalog.List) *Findings {
	found := finding.InCatalogBriefly(catalog.Catalog{Lists: []catalog.List{tools}})
	if len(found.Places) == 0 && found.Incomplete == "" {
		return nil
	}
	findings := &Findings{Places: []finding.Finding{}}
	findings.add(Findings{Places: found.Places, Incomplete: found.Incomplete})
	return findings
}

// said returns the recorded definition of a tool.
func said(tool evidence.Tool) json.RawMessage {
	raw, _ := evidence.Marshal(struct { // encoding cannot fail: the parts are valid JSON
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
		Annotations json.RawMessage `json:"annotations,omitempty"`
	}{tool.Name, tool.Description, tool.InputSchema, tool.Annotations})
	return raw
}
