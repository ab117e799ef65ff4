package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Catalog is one line of catalogs.jsonl: what a server listed during a trial, to the agent
// or, if tools are hidden from it, to the proxy.
type Catalog struct {
	Server string `json:"server"`
	// SHA256 is the digest of the digests of the server's final tools, in order of their
	// names. It does not depend on the order in which the server lists them.
	SHA256 string `json:"sha256"`
	// Complete reports that all pages of a list were seen, so that the server had no other
	// tools.
	Complete bool     `json:"complete"`
	Tools    []Tool   `json:"tools"`             // every tool listed, in the order first seen
	Changes  []Change `json:"changes,omitempty"` // in order, at most the first 1,000 of each kind
}

// RugPulls returns the changes for which [Change.RugPull] is true.
func (c Catalog) RugPulls() []Change {
	var pulls []Change
	for _, change := range c.Changes {
		if change.RugPull() {
			pulls = append(pulls, change)
		}
	}
	return pulls
}

// Tool is a tool as its server last described it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	First       int64           `json:"first_frame"`       // frame that first listed it
	Frame       int64           `json:"frame"`             // frame that last listed it
	Removed     int64           `json:"removed,omitempty"` // frame that completed a list without it
	Digest      string          `json:"digest"`            // SHA-256 of its whole entry in canonical form
	Hidden      bool            `json:"hidden,omitempty"`  // hidden from the agent
}

// ChangeKind is the kind of a change to a server's tools.
type ChangeKind string

// Kinds of changes to tools after they were first listed.
const (
	ToolAdded          ChangeKind = "added"   // a complete list did not have it
	ToolRemoved        ChangeKind = "removed" // the next complete list does not have it
	ChangedDescription ChangeKind = "description"
	ChangedInputSchema ChangeKind = "input_schema"
	ChangedAnnotations ChangeKind = "annotations"
	ChangedToReadOnly  ChangeKind = "read_only" // annotations that now say that it only reads
	ChangedOther       ChangeKind = "other"     // another part of the entry
)

// Change is a difference between two descriptions of a tool that the server sent to the
// agent.
type Change struct {
	Server string     `json:"server"`
	Tool   string     `json:"tool"`
	What   ChangeKind `json:"what"`
	Frame  int64      `json:"frame"` // frame that shows the change
	// Before and After hold the changed part, shortened to where it differs.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// RugPull reports whether a server changed the description or the input schema of a tool after
// it first listed the tool, or turned it from one that may write into one that only reads.
func (c Change) RugPull() bool {
	return c.What == ChangedDescription || c.What == ChangedInputSchema || c.What == ChangedToReadOnly
}

func (c Change) String() string {
	switch c.What {
	case ToolAdded, ToolRemoved:
		return fmt.Sprintf("tool %q was %s in frame %d", c.Tool, c.What, c.Frame)
	case ChangedDescription:
		return fmt.Sprintf("the description of tool %q changed in frame %d, from %q to %q", c.Tool, c.Frame, c.Before, c.After)
	case ChangedInputSchema:
		return fmt.Sprintf("the input schema of tool %q changed in frame %d, from %s to %s", c.Tool, c.Frame, c.Before, c.After)
	case ChangedToReadOnly:
		return fmt.Sprintf("tool %q was listed in frame %d as one that only reads, with %s in place of %s", c.Tool, c.Frame, c.After, cmp.Or(c.Before, "no annotations"))
	case ChangedAnnotations:
		return fmt.Sprintf("the annotations of tool %q changed in frame %d, from %s to %s", c.Tool, c.Frame, c.Before, c.After)
	}
	return fmt.Sprintf("the entry of tool %q changed in frame %d", c.Tool, c.Frame)
}
