package evidence

import (
	"encoding/json"

	"github.com/waza-isolate/waza/model/dialect"
)

// Narration is narration.json: the MCP calls of the agent's transcript, compared with those
// that were captured. It is there for trials with a transcript.
type Narration struct {
	// Reported is how many MCP calls the transcript has.
	Reported int `json:"reported"`
	// Unbacked are in the transcript and were never made. None is listed where calls may
	// have gone unseen.
	Unbacked []Claim `json:"unbacked,omitempty"`
	// Unreported are the numbers of calls that were made and are not in the transcript. None
	// is listed where the transcript is not whole.
	Unreported []int `json:"unreported,omitempty"`
	// Differs lists where the transcript contradicts the call it was paired with.
	Differs []Difference `json:"differs,omitempty"`
	// Ambiguous have a name that may be one of several tools, or a tool of the agent's own.
	Ambiguous []Claim `json:"ambiguous,omitempty"`
	// Tokens is how many tokens the agent says it used; nil if it says nothing. It is not
	// judged: agents count differently.
	Tokens *Tokens `json:"tokens,omitempty"`
	// Gaps says which evidence is missing; what depends on it is not listed.
	Gaps []string `json:"gaps,omitempty"`
	// Tools are the names that those in the transcript were compared with, by declared server:
	// those it listed and those that were called.
	Tools map[string][]string `json:"tools,omitempty"`
}

// Agrees reports whether the transcript contradicts no call, and leaves none out.
func (n Narration) Agrees() bool {
	return len(n.Unbacked)+len(n.Unreported)+len(n.Differs)+len(n.Ambiguous) == 0
}

// Tokens is how many tokens models took, as the agent reports it and as the gateway saw it.
type Tokens struct {
	Reported dialect.Usage  `json:"reported"`
	Wire     *dialect.Usage `json:"wire,omitempty"` // nil where that is not known
}

// ToolRef is one tool of one server.
type ToolRef struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Claim is one call as the transcript has it.
type Claim struct {
	Number    int             `json:"number"`       // among the tool uses of the transcript, from 1
	ID        string          `json:"id,omitempty"` // the agent's own
	Name      string          `json:"name"`         // of the tool, in the agent's words
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Tools are what the name stands for: one, or several where that is not clear.
	Tools []ToolRef `json:"tools"`
	// Call is the number of the captured call that the claim was paired with; of an
	// ambiguous one, of a call that it may be. 0 is none.
	Call int `json:"call,omitempty"`
}

// What a claim and its call differ in.
const (
	DiffersArguments = "arguments"
	DiffersOutcome   = "outcome"
	DiffersResult    = "result"
)

// Difference is one contradiction between the transcript and a call.
type Difference struct {
	Claim
	In   string `json:"in"`   // arguments, outcome or result
	Says string `json:"says"` // the claim, from shortly before where they part
	Was  string `json:"was"`  // the call, likewise
}
