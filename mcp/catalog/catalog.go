// Package catalog holds what an MCP server lists (instructions, tools, resources,
// prompts), the pins of that, and the differences between two lists.
//
// It is pure. Every byte of an offer is the server's word. What a call answers is no
// part of it, and neither is what a server does.
package catalog

import (
	"encoding/json"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Kind is a kind of what servers list.
type Kind string

// What a server may list.
const (
	Tools     Kind = "tools"
	Resources Kind = "resources"
	Templates Kind = "resource_templates"
	Prompts   Kind = "prompts"
)

// Kinds are all kinds, in the order in which they are asked for and told.
func Kinds() []Kind { return []Kind{Tools, Resources, Templates, Prompts} }

// One is what one entry of the kind is called.
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

// key is the member that entries of the kind are told apart by.
func (k Kind) key() string {
	switch k {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}

// Server is who a server says that it is.
type Server struct {
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	Protocol string `json:"protocol"` // the revision that it speaks with the runner
}

// Catalog is what a server offers.
type Catalog struct {
	Server       Server          `json:"server"`
	Instructions string          `json:"instructions,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Lists        []List          `json:"lists"` // one of each kind, in the order of [Kinds]
}

// List is one list of a server's, with all of its pages.
type List struct {
	Kind    Kind    `json:"kind"`
	Entries []Entry `json:"entries"`
	Bytes   int     `json:"bytes"` // of the entries as they came
	// Partial is why there may be more than Entries; empty where the list is whole.
	Partial string `json:"partial,omitempty"`
	// Absent says that the server does not know the list at all, and so has nothing of
	// the kind.
	Absent bool `json:"absent,omitempty"`
}

// Entry is one tool, resource, resource template or prompt.
type Entry struct {
	Key string          `json:"key"` // its name, or its URI
	Raw json.RawMessage `json:"raw"`
}

// NewEntry is the entry of a list of kind k that raw, which is valid JSON, tells.
func NewEntry(k Kind, raw json.RawMessage) Entry {
	return Entry{Key: jsontext.Word(jsontext.Member(raw, k.key())), Raw: raw}
}

// Text is a member of the entry that is a string; empty for none.
func (e Entry) Text(name string) string { return jsontext.Text(e.Member(name)) }

// Member is a member of the entry, as it stands there; nil for none. Of several of one
// name it is the last, as most parsers have it.
func (e Entry) Member(name string) json.RawMessage { return jsontext.Member(e.Raw, name) }

// Of is the list of a kind.
func (o Catalog) Of(k Kind) List {
	for _, l := range o.Lists {
		if l.Kind == k {
			return l
		}
	}
	return List{Kind: k, Partial: "it was not asked for"}
}
