package evidence

import (
	"encoding/json"
	"fmt"
)

// Catalog is one line of catalogs.jsonl: what a server listed in the course of a trial,
// to the agent or, where tools are kept from it, to the proxy.
type Catalog struct {
	Server string `json:"server"`
	// SHA256 is over the digests of the tools that the server had at last, in the order of
	// their names: it tells apart what servers say of their tools, and not in which order.
	SHA256 string `json:"sha256"`
	// Complete says that all pages of a list were seen: the server had no other tools.
	Complete bool     `json:"complete"`
	Tools    []Tool   `json:"tools"`             // every one that it listed, in the order first seen
	Changes  []Change `json:"changes,omitempty"` // in their order, of each kind the first 1,000
}

// RugPulls returns the changes that are rug pulls.
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
	First       int64           `json:"first_frame"`       // that listed it first
	Frame       int64           `json:"frame"`             // that listed it last
	Removed     int64           `json:"removed,omitempty"` // frame that ended a list without it
	Digest      string          `json:"digest"`            // SHA-256 of its whole entry in canonical form
	Hidden      bool            `json:"hidden,omitempty"`  // it was kept from the agent
}

// ChangeKind says what of a server's tools changed.
type ChangeKind string

// What may change of a server's tools, once it has listed them.
const (
	ToolAdded          ChangeKind = "added"   // to a list that was complete
	ToolRemoved        ChangeKind = "removed" // the next complete list has it no more
	ChangedDescription ChangeKind = "description"
	ChangedInputSchema ChangeKind = "input_schema"
	ChangedAnnotations ChangeKind = "annotations"
	ChangedOther       ChangeKind = "other" // of the entry, and none of the above
)

// Change is a difference between what a server said of a tool to the agent and what it had
// said before.
type Change struct {
	Server string     `json:"server"`
	Tool   string     `json:"tool"`
	What   ChangeKind `json:"what"`
	Frame  int64      `json:"frame"` // that showed it
	// Before and After are what changed, cut to the part that differs.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// RugPull reports whether what a tool does or takes was described to the agent in another
// way than when the tool was first listed.
func (c Change) RugPull() bool {
	return c.What == ChangedDescription || c.What == ChangedInputSchema
}

func (c Change) String() string {
	switch c.What {
	case ToolAdded, ToolRemoved:
		return fmt.Sprintf("tool %q was %s in frame %d", c.Tool, c.What, c.Frame)
	case ChangedDescription:
		return fmt.Sprintf("the description of tool %q changed in frame %d, from %q to %q", c.Tool, c.Frame, c.Before, c.After)
	case ChangedInputSchema:
		return fmt.Sprintf("the input schema of tool %q changed in frame %d, from %s to %s", c.Tool, c.Frame, c.Before, c.After)
	case ChangedAnnotations:
		return fmt.Sprintf("the annotations of tool %q changed in frame %d, from %s to %s", c.Tool, c.Frame, c.Before, c.After)
	}
	return fmt.Sprintf("the entry of tool %q changed in frame %d", c.Tool, c.Frame)
}
