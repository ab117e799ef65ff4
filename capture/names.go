package capture

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// NameKind says what a name is that an agent tells a tool by.
type NameKind string

// Kinds of names.
const (
	NameTool      NameKind = "tool"      // one tool of one server
	NameBuiltin   NameKind = "builtin"   // of no server
	NameUnknown   NameKind = "unknown"   // a server's, or nearly, and of no tool that it has
	NameAmbiguous NameKind = "ambiguous" // more than one tool's
)

// Resolution is what a name may stand for.
type Resolution struct {
	Kind NameKind
	// Tools are all readings, sorted: one of a tool, several where it is ambiguous. Of
	// an unknown name they are what follows each server's name; none where it differs
	// from a tool's in case alone.
	Tools []evidence.ToolRef
	// Bare says that it is tools' own name, without a server's before it. An agent may
	// have a tool of that name itself.
	Bare bool
}

// claims reports whether the name says that it is a server's tool.
func (r Resolution) claims() bool { return len(r.Tools) > 0 }

// Resolve finds what names stand for, as agents write tools of servers, in the order
// of the names. catalogs holds the tools of every declared server; one that listed
// none on record is there without any.
//
// Names are not taken apart: every tool is written in every way that clients are
// known to write it, and compared. Where no tool fits, a name that begins with a
// declared server's is unknown: a claim about that server all the same.
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
			if name, long := digested(server, tool); long && asked[name] != nil {
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

// reading collects the tools that a name fits.
type reading struct {
	tools    map[evidence.ToolRef]bool
	prefixed bool // one of them with its server
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

// unlisted is what a name stands for that fits no tool. cased says that it would fit
// one but for its case.
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

// prefixesOf are the beginnings of names that are about each server, whatever follows.
// One underscore alone is not among them: web_search need be no tool of a server web.
func prefixesOf(catalogs map[string][]string) map[string][]string {
	prefixes := map[string][]string{}
	for server := range catalogs {
		for _, s := range spellings(server) {
			prefixes[server] = append(prefixes[server], "mcp__"+s+"__", "mcp_"+s+"_", s+"__", s+"-", s+".", s+"/")
		}
	}
	return prefixes
}

// shapes are the ways in which clients put a server's name and a tool's together.
func shapes() []shape {
	return []shape{{"mcp__", "__"}, {"mcp_", "_"}, {"", "__"}, {"", "_"}, {"", "-"}, {"", "."}, {"", "/"}}
}

type shape struct{ before, between string }

// written yields every way of writing a tool, and whether it is its bare name.
func written(servers, tools []string) iter.Seq2[string, bool] {
	shapes := shapes()
	return func(yield func(string, bool) bool) {
		for _, tool := range tools {
			for _, name := range shortNames(tool) {
				if !yield(name, true) {
					return
				}
			}
			for _, server := range servers {
				for _, shape := range shapes {
					for _, name := range shortNames(shape.before + server + shape.between + tool) {
						if !yield(name, false) {
							return
						}
					}
				}
			}
		}
	}
}

// MaxModelName is how long a tool's name may be for the APIs of models.
const MaxModelName = 64

// ModelName writes a tool for the APIs of models: mcp__SERVER__TOOL, with _ for what they
// do not take; where that is too long, its beginning and a digest of the whole.
func ModelName(server, tool string) string {
	if name, long := digested(server, tool); long {
		return name
	}
	return spelled("mcp__"+server+"__"+tool, true)
}

// shortNames is a name as it is, and as clients shorten it for being too long: cut off,
// or with its middle left out.
func shortNames(name string) []string {
	all := []string{name}
	if n := len(name); n >= MaxModelName {
		all = append(all, name[:28]+"___"+name[n-32:], name[:30]+"..."+name[n-30:])
		if n > MaxModelName {
			all = append(all, name[:MaxModelName])
		}
	}
	return all
}

// digested is how Codex writes a name that is too long: its beginning, and the SHA-1
// of the whole.
func digested(server, tool string) (name string, long bool) {
	raw := "mcp__" + server + "__" + tool
	if len(raw) <= MaxModelName {
		return "", false
	}
	sum := sha1.Sum([]byte(raw))
	digest := hex.EncodeToString(sum[:])
	return spelled(raw, true)[:MaxModelName-len(digest)] + digest, true
}

// spellings are the ways in which clients write a name, each once: as it is; with _
// for what APIs of models do not take; and with _ for - too.
func spellings(name string) []string {
	return slices.Compact([]string{name, spelled(name, true), spelled(name, false)})
}

func spelled(name string, hyphens bool) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-' && hyphens:
			return c
		}
		return '_'
	}, name)
}

func sorted(refs iter.Seq[evidence.ToolRef]) []evidence.ToolRef {
	return slices.SortedFunc(refs, func(a, b evidence.ToolRef) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
}
