package capture

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// NameKind is the kind of an agent's name for a tool.
type NameKind string

// Kinds of names.
const (
	NameTool      NameKind = "tool"      // one tool of one server
	NameBuiltin   NameKind = "builtin"   // no server's tool
	NameUnknown   NameKind = "unknown"   // a server's name or almost one, but none of its tools
	NameAmbiguous NameKind = "ambiguous" // may be any of several tools
)

// Resolution is the meaning of a name.
type Resolution struct {
	Kind NameKind
	// Tools are the tools that the name may refer to, sorted. An ambiguous name has several. For an unknown
	// name, they are the parts after servers' names; there are none if the name differs from a tool's only in
	// case.
	Tools []evidence.ToolRef
	// Bare reports that the name does not include a server. The agent may have a builtin
	// tool with that name.
	Bare bool
}

// claims reports whether the name refers to a server's tool.
func (r Resolution) claims() bool { return len(r.Tools) > 0 }

// Resolve returns the meaning of the names that agents use for tools, in the order of
// names. catalogs maps every declared server to its tools, or to an empty list if none is
// recorded.
//
// Names are not split. Instead, every tool is spelled in every way that clients are known
// to use, and compared. A name that matches no tool and starts with the name of a server is
// unknown, but is still a claim about that server.
func Resolve(catalogs map[string][]string, names ...string) []Resolution {
	asked := map[string]*reading{}
	for _, name := range names {
		asked[name] = &reading{}
	}
	folded := map[string]bool{}
	for name := range asked {
		folded[strings.ToLower(name)] = false
	}
	for server, tools := range catalogs {
		servers := spellings(server)
		for _, tool := range tools {
			ref := evidence.ToolRef{Server: server, Tool: tool}
			for name, bare := range written(servers, spellings(tool)) {
				if r := asked[name]; r != nil {
					r.add(ref, bare)
				}
			}
			if name, long := dialect.LongNameOf(server, tool); long && asked[name] != nil {
				asked[name].add(ref, false)
			}
			if _, ok := folded[strings.ToLower(tool)]; ok {
				folded[strings.ToLower(tool)] = true
			}
		}
	}
	prefixes := prefixesOf(catalogs)
	all := make([]Resolution, len(names))
	for i, name := range names {
		all[i] = asked[name].resolution()
		if all[i].Kind == NameBuiltin {
			all[i] = unlisted(prefixes, name, folded[strings.ToLower(name)])
		}
	}
	return all
}

// reading collects the tools that a name may refer to.
type reading struct {
	tools    map[evidence.ToolRef]bool
	prefixed bool // a tool was written with its server
}

func (r *reading) add(ref evidence.ToolRef, bare bool) {
	if r.tools == nil {
		r.tools = map[evidence.ToolRef]bool{}
	}
	r.tools[ref] = true
	r.prefixed = r.prefixed || !bare
}

func (r *reading) resolution() Resolution {
	found := Resolution{Kind: NameBuiltin, Tools: sorted(maps.Keys(r.tools)), Bare: len(r.tools) > 0 && !r.prefixed}
	switch len(found.Tools) {
	case 0:
	case 1:
		found.Kind = NameTool
	default:
		found.Kind = NameAmbiguous
	}
	return found
}

// unlisted returns the meaning of a name that matches no tool. cased means that it differs from a tool's name
// only in case.
func unlisted(prefixes map[string][]string, name string, cased bool) Resolution {
	found := map[evidence.ToolRef]bool{}
	for server, all := range prefixes {
		for _, prefix := range all {
			if tool, ok := strings.CutPrefix(name, prefix); ok && tool != "" {
				found[evidence.ToolRef{Server: server, Tool: tool}] = true
			}
		}
	}
	if len(found) == 0 && !cased {
		return Resolution{Kind: NameBuiltin}
	}
	return Resolution{Kind: NameUnknown, Tools: sorted(maps.Keys(found))}
}

// prefixesOf returns the prefixes that mark a name as that of a server's tool. A single underscore is none:
// web_search need not be a tool of a server web.
func prefixesOf(catalogs map[string][]string) map[string][]string {
	prefixes := map[string][]string{}
	for server := range catalogs {
		for _, s := range spellings(server) {
			prefixes[server] = append(prefixes[server], "mcp__"+s+"__", "mcp_"+s+"_", s+"__", s+"-", s+".", s+"/")
		}
	}
	return prefixes
}

// shapes returns the ways in which clients join the names of a server and a tool.
func shapes() []shape {
	return []shape{{"mcp__", "__"}, {"mcp_", "_"}, {"", "__"}, {"", "_"}, {"", "-"}, {"", "."}, {"", "/"}}
}

type shape struct{ before, between string }

// written yields every spelling of a tool, and whether the spelling is a bare name.
func written(servers, tools []string) iter.Seq2[string, bool] {
	shapes := shapes()
	return func(yield func(string, bool) bool) {
		for _, tool := range tools {
			full := []string{tool}
			for _, server := range servers {
				for _, shape := range shapes {
					full = append(full, shape.before+server+shape.between+tool)
				}
			}
			for i, name := range full {
				for _, short := range shortNames(name) {
					if !yield(short, i == 0) {
						return
					}
				}
			}
		}
	}
}

// shortNames returns a name and the ways in which clients shorten it if it is too long:
// without its end, or without its middle.
func shortNames(name string) []string {
	all := []string{name}
	if n := len(name); n >= dialect.MaxToolName {
		all = append(all, name[:28]+"___"+name[n-32:], name[:30]+"..."+name[n-30:])
		if n > dialect.MaxToolName {
			all = append(all, name[:dialect.MaxToolName])
		}
	}
	return all
}

// spellings returns the ways in which clients write a name, without duplicates: unchanged;
// with _ for characters that model APIs reject; and with _ for - too.
func spellings(name string) []string {
	return slices.Compact([]string{name, dialect.Spelled(name, true), dialect.Spelled(name, false)})
}

func sorted(refs iter.Seq[evidence.ToolRef]) []evidence.ToolRef {
	return slices.SortedFunc(refs, func(a, b evidence.ToolRef) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
}
