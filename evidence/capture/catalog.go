package capture

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/schema"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Limits on what is kept of a server's lists. Beyond them, it is unknown whether the server has a tool.
const (
	maxTools  = 10_000  // tools with different names
	maxListed = 100_000 // entries in the lists of all conversations
)

// catalog holds the tools that a server has listed so far.
type catalog struct {
	tools         []*tool // in the order first seen
	index         map[string]*tool
	bytes         map[[sha256.Size]byte]*version // the tools' latest versions, by their bytes
	conversations map[string]*conversation       // by name; "" stands for all conversations without a session
	whole         int64                          // frame that requested the last complete list; 0 if there is none
	blind         int64                          // last frame after which the server may have tools that no list contains
	listed        int
	changes       changes
	schemas       schema.Checker
}

// tool is a tool with its versions.
type tool struct {
	*version
	first, last int64 // frames that listed it
	hint        *bool // readOnlyHint of the first list that the agent received
	removed     int64 // frame that completed a list without it; 0 if there is none
	hidden      bool
	born        int64                      // frame that requested the first list with it
	twins       map[[sha256.Size]byte]bool // other entries of the same name in one list
}

// current reports whether the agent may know the tool and the tool was not removed.
func (t *tool) current() bool { return t != nil && !t.hidden && t.removed == 0 }

// conversation holds the tools that were listed in one conversation.
type conversation struct {
	whole *listing // the last complete list
	fresh *listing // the pages received so far of a newer list
}

// listing is a list of tools, page by page.
type listing struct {
	asked int64  // frame of the request for the first page; 0 if not seen
	next  string // cursor of the next page
	tools map[string]*version
}

func newCatalog() *catalog {
	return &catalog{index: map[string]*tool{}, bytes: map[[sha256.Size]byte]*version{}, conversations: map[string]*conversation{}}
}

// catalog returns the catalog of the server of f.
func (c *collector) catalog(f evidence.Frame) *catalog {
	known := c.tools[f.Server]
	if known == nil {
		known = newCatalog()
		c.tools[f.Server] = known
	}
	return known
}

// conversationOf returns the conversation of a list. Requests without a session may use any
// connection, so those to one server form one conversation.
func (c *collector) conversationOf(f evidence.Frame) string {
	if c.session[connID{f.Server, f.Conn}] {
		return f.Conn
	}
	return ""
}

// kept reads a message that did not reach the agent: a list before tools were removed from it, or a response
// after the client disconnected. The request ends with the response that the agent receives later.
func (c *collector) kept(f evidence.Frame, m jsonrpc.Message) {
	id := requestID{connID{f.Server, f.Conn}, m.ID.Key}
	waiting := c.open[id]
	if m.Method == "" && len(waiting) == 0 {
		c.lateResponse(f, c.closed[id])
	}
	if m.Method == "" && len(waiting) > 0 && waiting[0].list {
		known := c.catalog(f)
		for _, raw := range pageOf(m.Result).tools {
			if v := known.version(f, raw); v != nil && !known.hide(f, v) {
				return
			}
		}
	}
}

// list reads a page of a list that the agent received.
func (c *collector) list(f evidence.Frame, r *request, result json.RawMessage) {
	if result == nil {
		return // an error lists nothing
	}
	p := pageOf(result)
	known := c.catalog(f)
	if !p.ok {
		known.blind = f.Seq
		return
	}
	l := known.listing(c.conversationOf(f), r)
	for _, raw := range p.tools {
		v := known.version(f, raw)
		if v == nil {
			continue
		}
		if !known.show(f, l, v) {
			l.asked, known.blind = 0, f.Seq
			break
		}
	}
	if p.last && l.asked > 0 && r.cursor == l.next {
		known.end(f, c.conversationOf(f), l)
	} else if r.cursor == l.next {
		l.next = p.next
	}
}

// listing returns the list that a page belongs to. A request without a cursor starts a new list.
func (k *catalog) listing(name string, r *request) *listing {
	t := k.conversations[name]
	if t == nil {
		t = &conversation{}
		k.conversations[name] = t
	}
	switch {
	case r.cursor == "":
		k.drop(t.fresh)
		t.fresh = &listing{asked: r.frame, tools: map[string]*version{}}
	case t.fresh == nil:
		t.fresh = &listing{tools: map[string]*version{}}
	}
	return t.fresh
}

// drop removes a list that is no longer needed from the count of listed tools.
func (k *catalog) drop(l *listing) {
	if l != nil {
		k.listed -= len(l.tools)
	}
}

// show adds v, which the agent received. It returns false if a limit was reached.
func (k *catalog) show(f evidence.Frame, l *listing, v *version) bool {
	name := v.name()
	t := k.index[name]
	if l.tools[name] != nil {
		k.showTwin(f, l, t, v)
		return true
	}
	if k.listed >= maxListed || t == nil && len(k.tools) >= maxTools {
		return false
	}
	l.tools[name] = v
	k.listed++
	if !t.current() && k.whole > 0 {
		k.changes.add(f, name, evidence.ToolAdded, "", "")
	}
	if t == nil {
		t = k.add(f, v)
	}
	if !t.hidden {
		k.changes.compare(f, t.version, v)
	}
	if t.born == 0 {
		t.born = l.asked
	}
	if t.hidden {
		t.hint = v.readOnly
	}
	t.hidden, t.removed = false, 0
	k.update(f, t, v)
	return true
}

// showTwin adds another entry with the same name to a list; the first one counts. If the two differ, it
// records a change, unless they already differed in the first list.
func (k *catalog) showTwin(f evidence.Frame, l *listing, t *tool, v *version) {
	if v.sum == t.sum || t.twins[v.sum] || len(t.twins) == maxTwins {
		return
	}
	if t.twins == nil {
		t.twins = map[[sha256.Size]byte]bool{}
	}
	t.twins[v.sum] = true
	if t.born != l.asked {
		k.changes.compare(f, t.version, v)
	}
}

// maxTwins is the maximum number of different entries with the same name that are remembered.
const maxTwins = 16

// hide adds a tool that may be hidden from the agent. It returns false if a limit was reached. It does not
// change a tool that the agent has received.
func (k *catalog) hide(f evidence.Frame, v *version) bool {
	t := k.index[v.name()]
	switch {
	case t == nil && len(k.tools) >= maxTools:
		return false
	case t == nil:
		k.add(f, v).hidden = true
	case t.hidden:
		k.update(f, t, v)
	}
	return true
}

func (k *catalog) add(f evidence.Frame, v *version) *tool {
	t := &tool{version: v, first: f.Seq, last: f.Seq, hint: v.readOnly}
	k.index[v.name()] = t
	k.tools = append(k.tools, t)
	k.bytes[v.sum] = v
	return t
}

func (k *catalog) update(f evidence.Frame, t *tool, v *version) {
	t.last = f.Seq
	if t.version == v {
		return
	}
	delete(k.bytes, t.sum)
	k.bytes[v.sum] = v
	t.version = v
}

// end makes the complete list l the current list of its conversation.
func (k *catalog) end(f evidence.Frame, name string, l *listing) {
	t := k.conversations[name]
	k.drop(t.whole)
	t.whole, t.fresh = l, nil
	k.whole = l.asked
	var gone []string
	for _, t := range k.tools {
		if t.current() && l.tools[t.name()] == nil {
			t.removed = f.Seq
			gone = append(gone, t.name())
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		k.changes.add(f, name, evidence.ToolRemoved, "", "")
	}
}

// find returns the last version of a tool in a conversation, or else in any other. If there is none, known
// reports whether a complete list lacks the tool and nothing can have changed since.
func (k *catalog) find(in, name string, blind int64) (v *version, known bool) {
	t := k.conversations[in]
	if t == nil {
		t = &conversation{}
	}
	for _, l := range []*listing{t.fresh, t.whole} {
		if l != nil && l.tools[name] != nil {
			return l.tools[name], true
		}
	}
	if other := k.index[name]; other.current() {
		return other.version, true
	}
	blind = max(blind, k.blind)
	switch {
	case t.fresh != nil:
		return nil, false
	case t.whole != nil:
		return nil, t.whole.asked > blind
	}
	return nil, k.whole > blind
}

// record returns the server's catalog, with the last version of each tool.
func (k *catalog) record(server string) evidence.Catalog {
	tools := []evidence.Tool{}
	for _, t := range k.tools {
		last := t.tool
		last.First, last.Frame, last.Removed, last.Hidden = t.first, t.last, t.removed, t.hidden
		tools = append(tools, last)
	}
	return evidence.Catalog{Server: server, SHA256: hashOf(tools), Complete: k.whole > 0, Tools: tools, Changes: k.changes.kept}
}
