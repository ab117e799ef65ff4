package results

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
)

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
	more := fold(&m.Places, other.Places, sameMark, func(*finding.Mark, finding.Mark) {}, nil)
	m.More += other.More + more
	m.Unlooked = cmp.Or(m.Unlooked, other.Unlooked)
}

func sameMark(a, b finding.Mark) bool { return a == b }

// maxLooks is how many different catalogs of one server are looked at: each may take a
// second where a server means harm.
const maxLooks = 16

// marker looks at each different catalog of a server once.
type marker map[string]map[[sha256.Size]byte]*Marks

// mark tells each server's report of the marks of its catalog.
func (m marker) mark(reports []ServerReport, catalogs []evidence.Catalog) {
	for _, catalog := range catalogs {
		for i := range reports {
			if reports[i].Name == catalog.Server {
				reports[i].Marks = m.of(catalog)
			}
		}
	}
}

func (m marker) of(listed evidence.Catalog) *Marks {
	tools := catalog.List{Kind: catalog.Tools}
	sum := sha256.New()
	for _, tool := range slices.SortedStableFunc(slices.Values(listed.Tools), byName) {
		raw := said(tool)
		digest := sha256.Sum256(raw)
		_, _ = sum.Write(digest[:]) // it never fails
		tools.Entries = append(tools.Entries, catalog.Entry{Key: tool.Name, Raw: raw})
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	if marks, looked := m[listed.Server][key]; looked {
		return marks
	}
	if len(m[listed.Server]) == maxLooks {
		return &Marks{Places: []finding.Mark{}, Unlooked: fmt.Sprintf("of its different catalogs the first %d were looked at", maxLooks)}
	}
	if m[listed.Server] == nil {
		m[listed.Server] = map[[sha256.Size]byte]*Marks{}
	}
	marks := marksOf(tools)
	m[listed.Server][key] = marks
	return marks
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
