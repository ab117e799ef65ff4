package evidence

import "time"

// Certificate is what came of trying to get out of a sandbox: of the kind that a
// run's trials have, on their engine, with their build of waza.
type Certificate struct {
	Probed  Probed            `json:"probed"`
	At      time.Time         `json:"at"` // UTC
	Engine  map[string]string `json:"engine"`
	Kind    SandboxKind       `json:"kind"`
	Attacks []Attack          `json:"attacks"`
}

// Probed says where a run has its certificate from.
type Probed string

// A certificate is made for the run, or was made for one before it.
const (
	ProbedNow    Probed = "now"
	ProbedCached Probed = "cached"
)

// SandboxKind is what one sandbox's walls have in common with another's.
type SandboxKind struct {
	Network   string `json:"network"` // bridge or airtight
	Subnets   string `json:"subnets,omitempty"`
	Runtime   string `json:"runtime,omitempty"` // empty for the engine's own
	Workspace string `json:"workspace"`         // tmpfs or volume
}

// AttackResult is what came of an attack.
type AttackResult string

const (
	AttackHeld     AttackResult = "held"      // it was refused, or nothing arrived
	AttackGotOut   AttackResult = "got_out"   // a wall is missing
	AttackNotTried AttackResult = "not_tried" // it could not be carried out, or not be seen arriving
)

// Attack is one way out of a sandbox that was tried from the agent's container and
// from a server's.
type Attack struct {
	Name    string       `json:"name"`
	Tries   string       `json:"tries"`
	Result  AttackResult `json:"result"`
	Detail  string       `json:"detail,omitempty"`
	Allowed bool         `json:"allowed,omitempty"` // it got out, and the command line lets it
}

// With lists the attacks that came to a result.
func (c *Certificate) With(result AttackResult) []Attack {
	var all []Attack
	for _, a := range c.Attacks {
		if a.Result == result {
			all = append(all, a)
		}
	}
	return all
}
