// Package catalog represents what an MCP server lists (instructions, tools, resources, prompts),
// pins of it, and differences between two catalogs.
//
// It does no I/O. Everything in a catalog is claimed by the server. It does not cover results of
// calls, nor what a server actually does.
package catalog

import (
	"encoding/json"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Kind is a kind of list.
type Kind string

// Kinds of lists.
const (
	Tools     Kind = "tools"
	Resources Kind = "resources"
	Templates Kind = "resource_templates"
	Prompts   Kind = "prompts"
)

// Kinds returns all kinds, in the order in which they are requested and reported.
func Kinds() []Kind { return []Kind{Tools, Resources, Templates, Prompts} }

// One returns the singular name of the kind.
func (k Kind) One() string {
	switch k {
	case Tools:
		return "tool"
	case Resources:
		return "resource"
	case Templates:
		return "resource template"
	}
	return "prompt"
}

// Request returns the method that requests the list, and the list's member of the result.
func (k Kind) Request() (method, member string) {
	switch k {
	case Resources:
		return "resources/list", "resources"
	case Templates:
		return "resources/templates/list", "resourceTemplates"
	case Prompts:
		return "prompts/list", "prompts"
	}
	return "tools/list", "tools"
}

// key returns the name of the member that identifies an entry.
func (k Kind) key() string {
	switch k {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}

// Server is a server's self-reported identity.
type Server struct {
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	Protocol string `json:"protocol"` // protocol revision negotiated with the runner
}

// Catalog is everything that a server lists.
type Catalog struct {
	Server       Server          `json:"server"`
	Instructions string          `json:"instructions,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Lists        []List          `json:"lists"` // one per kind, in the order of [Kinds]
}

// List is one list of a server, from all pages.
type List struct {
	Kind    Kind    `json:"kind"`
	Entries []Entry `json:"entries"`
	Bytes   int     `json:"bytes"` // size of the entries as received
	// Partial says why Entries may be incomplete; empty if the list is complete.
	Partial string `json:"partial,omitempty"`
	// Absent reports that the server does not implement the list, and so has no such
	// entries.
	Absent bool `json:"absent,omitempty"`
}

// Entry is one tool, resource, resource template or prompt.
type Entry struct {
	Key string          `json:"key"` // name or URI
	Raw json.RawMessage `json:"raw"`
}

// NewEntry returns raw, which must be valid JSON, as an entry of a list of kind k.
func NewEntry(k Kind, raw json.RawMessage) Entry {
	return Entry{Key: jsontext.Word(jsontext.Member(raw, k.key())), Raw: raw}
}

// Text returns the string value of a member, or "".
func (e Entry) Text(name string) string { return jsontext.Text(e.Member(name)) }

// Member returns the raw value of a member, or nil. The last of duplicate members counts,
// as in most parsers.
func (e Entry) Member(name string) json.RawMessage { return jsontext.Member(e.Raw, name) }

// Of returns the list of a kind.
func (o Catalog) Of(k Kind) List {
	for _, l := range o.Lists {
		if l.Kind == k {
			return l
		}
	}
	return List{Kind: k, Partial: "it was not requested"}
}
