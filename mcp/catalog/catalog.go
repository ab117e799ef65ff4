// Package catalog holds what an MCP server lists (instructions, tools, resources,
// prompts), the pins of that, and the differences between two lists.
//
// It is pure. Every byte of a catalog is a claim of the server. Answers to calls are no part of it,
// and neither is what a server does.
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

// Kinds returns all kinds, in the order in which they are requested and reported.
func Kinds() []Kind { return []Kind{Tools, Resources, Templates, Prompts} }

// One returns the name of an entry of the kind.
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

// key returns the member that identifies entries of the kind.
func (k Kind) key() string {
	switch k {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}

// Server is the identity that a server reports.
type Server struct {
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	Protocol string `json:"protocol"` // the revision that it speaks with the runner
}

// Catalog is what a server lists.
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
	// Partial says why there may be more than Entries. It is empty where the list is complete.
	Partial string `json:"partial,omitempty"`
	// Absent is set where the server does not know the list at all, and so has nothing of the
	// kind.
	Absent bool `json:"absent,omitempty"`
}

// Entry is one tool, resource, resource template or prompt.
type Entry struct {
	Key string          `json:"key"` // its name, or its URI
	Raw json.RawMessage `json:"raw"`
}

// NewEntry returns the entry of a list of kind k that raw is, which is valid JSON.
func NewEntry(k Kind, raw json.RawMessage) Entry {
	return Entry{Key: jsontext.Word(jsontext.Member(raw, k.key())), Raw: raw}
}

// Text returns the string of a member of the entry. It is empty where there is none.
func (e Entry) Text(name string) string { return jsontext.Text(e.Member(name)) }

// Member returns a member of the entry as it was written, or nil. Of several of one name it is the
// last, as with most parsers.
func (e Entry) Member(name string) json.RawMessage { return jsontext.Member(e.Raw, name) }

// Of returns the list of a kind.
func (o Catalog) Of(k Kind) List {
	for _, l := range o.Lists {
		if l.Kind == k {
			return l
		}
	}
	return List{Kind: k, Partial: "it was not asked for"}
}
