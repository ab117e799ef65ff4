package evidence

import (
	"time"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// Guarantees is what was really enforced for a trial, never what was asked for.
type Guarantees struct {
	Backend  string   `json:"backend"` // docker, process
	Network  string   `json:"network"` // bridge, airtight, none
	Enforced []string `json:"enforced"`
	Missing  []string `json:"missing,omitempty"`
}

// Limits of a container, and of the agent or the server that lives there. What is 0 is not
// limited.
type Limits struct {
	CPUs       float64 `json:"cpus,omitempty"`
	Memory     int64   `json:"memory,omitempty"` // bytes
	Pids       int64   `json:"pids,omitempty"`
	OpenFiles  int64   `json:"open_files,omitempty"`  // of each process
	Disk       int64   `json:"disk,omitempty"`        // bytes, of the workspace or of each writable directory
	Scratch    int64   `json:"scratch,omitempty"`     // bytes, each of /tmp and home
	Seconds    float64 `json:"seconds,omitempty"`     // the agent may take
	MaxOutput  int64   `json:"max_output,omitempty"`  // bytes, each of the agent's stdout and stderr
	MaxCalls   int64   `json:"max_calls,omitempty"`   // of tools, by the agent
	MaxMessage int64   `json:"max_message,omitempty"` // bytes, either way
	MaxFrames  int64   `json:"max_frames,omitempty"`  // messages, each way
	MaxTraffic int64   `json:"max_traffic,omitempty"` // bytes of messages, each way
	Evidence   int64   `json:"evidence,omitempty"`    // bytes that may be recorded of what it causes
}

// Resource is what a container may use, and what it used.
type Resource struct {
	Limits Limits `json:"limits"`
	Used   *Usage `json:"used,omitempty"`
	Unseen string `json:"unseen,omitempty"` // why Used is missing
}

// Usage is what a container used.
type Usage = observe.Usage

// ImageRecords is the images of a run, by reference.
type ImageRecords map[string]ImageRecord

// ImageRecord is what an image of a run was.
type ImageRecord struct {
	ID string `json:"id"` // on the engine: the digest of its configuration
	// Digests are the image's in the repositories it was pulled from, as
	// name@sha256:…; none for one that was built here.
	Digests []string `json:"digests,omitempty"`
}

// Certificate is the result of attacking a sandbox from inside: one of the kind that a run's
// trials have, on the same engine and with the same build of waza.
type Certificate struct {
	Probed  Probed            `json:"probed"`
	At      time.Time         `json:"at"` // UTC
	Engine  map[string]string `json:"engine"`
	Kind    SandboxKind       `json:"kind"`
	Attacks []Attack          `json:"attacks"`
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

// Probed says whether a run's certificate was made for it.
type Probed string

// A certificate is made for the run, or was made for one before it.
const (
	ProbedNow    Probed = "now"
	ProbedCached Probed = "cached"
)

// SandboxKind is what the walls of a sandbox depend on. A certificate holds for all sandboxes of
// its kind.
type SandboxKind struct {
	Network   string `json:"network"` // bridge or airtight
	Subnets   string `json:"subnets,omitempty"`
	Runtime   string `json:"runtime,omitempty"` // empty for the engine's own
	Workspace string `json:"workspace"`         // tmpfs or volume
}

// Attack is one attempt to get out of a sandbox, made from the agent's container and from a
// server's.
type Attack struct {
	Name    string       `json:"name"`
	Tries   string       `json:"tries"`
	Result  AttackResult `json:"result"`
	Detail  string       `json:"detail,omitempty"`
	Allowed bool         `json:"allowed,omitempty"` // it got out, and the command line lets it
}

// AttackResult is what came of an attack.
type AttackResult string

const (
	AttackHeld     AttackResult = "held"      // it was refused, or nothing arrived
	AttackGotOut   AttackResult = "got_out"   // a wall is missing
	AttackNotTried AttackResult = "not_tried" // it could not be carried out, or not be seen arriving
)
