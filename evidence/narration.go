package evidence

import (
	"encoding/json"

	"github.com/waza-isolate/waza/model/dialect"
)

// Narration is narration.json: the MCP calls in the agent's transcript compared with the
// captured calls. Trials without a transcript have none.
type Narration struct {
	// Reported is the number of MCP calls in the transcript.
	Reported int `json:"reported"`
	// Unbacked lists the reported calls that were not made. It is empty if calls may have
	// been missed.
	Unbacked []Claim `json:"unbacked,omitempty"`
	// Unreported lists the numbers of the calls that the transcript lacks. It is empty if
	// the transcript is incomplete.
	Unreported []int `json:"unreported,omitempty"`
	// Differs lists where the transcript contradicts the captured call.
	Differs []Difference `json:"differs,omitempty"`
	// Ambiguous lists the reported calls whose name may stand for several tools, or for a
	// tool of the agent itself.
	Ambiguous []Claim `json:"ambiguous,omitempty"`
	// Tokens is the token usage reported by the agent; nil if it reports none. It is not
	// evaluated, since agents count differently.
	Tokens *Tokens `json:"tokens,omitempty"`
	// Gaps lists missing evidence; what depends on it is not listed.
	Gaps []string `json:"gaps,omitempty"`
	// Tools lists, by declared server, the tool names that the transcript was compared
	// with: those listed by the server and those called.
	Tools map[string][]string `json:"tools,omitempty"`
}

// Tokens is token usage as reported by the agent and as seen by the gateway.
type Tokens struct {
	Reported dialect.Usage  `json:"reported"`
	Wire     *dialect.Usage `json:"wire,omitempty"` // nil if unknown
}

// ToolRef is one tool of one server.
type ToolRef struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Claim is one call as reported in the transcript.
type Claim struct {
	Number    int             `json:"number"`       // among the tool uses in the transcript, from 1
	ID        string          `json:"id,omitempty"` // assigned by the agent
	Name      string          `json:"name"`         // of the tool, as written by the agent
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Tools lists the tools that the name may stand for: one, or several if it is
	// ambiguous.
	Tools []ToolRef `json:"tools"`
	// Call is the number of the captured call that the claim was paired with or, if the
	// claim is ambiguous, that it may refer to; 0 if none.
	Call int `json:"call,omitempty"`
}

// Kinds of differences between a claim and its call.
const (
	DiffersArguments = "arguments"
	DiffersOutcome   = "outcome"
	DiffersResult    = "result"
)

// Difference is one contradiction between the transcript and a call.
type Difference struct {
	Claim
	In      string `json:"in"`      // arguments, outcome or result
	Claimed string `json:"claimed"` // an excerpt of the claim around the difference
	Actual  string `json:"actual"`  // the same of the call
}
