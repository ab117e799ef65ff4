package evidence

import (
	"encoding/json"
	"time"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// Guarantees is what was enforced for a trial, as opposed to what was requested.
type Guarantees struct {
	Backend  string   `json:"backend"` // docker, process
	Network  string   `json:"network"` // bridge, airtight, none
	Enforced []string `json:"enforced"`
	Missing  []string `json:"missing"`
}

// UnmarshalJSON reads guarantees. Older records have no missing if nothing is.
func (g *Guarantees) UnmarshalJSON(data []byte) error {
	type plain Guarantees
	if err := json.Unmarshal(data, (*plain)(g)); err != nil {
		return err
	}
	if g.Missing == nil {
		g.Missing = []string{}
	}
	return nil
}

// Limits are the limits of a container and of the agent or server in it. Zero means
// unlimited.
type Limits struct {
	CPUs       float64 `json:"cpus,omitempty"`
	Memory     int64   `json:"memory,omitempty"` // bytes
	Pids       int64   `json:"pids,omitempty"`
	OpenFiles  int64   `json:"open_files,omitempty"`  // per process
	Disk       int64   `json:"disk,omitempty"`        // bytes, of the workspace or each writable directory
	Scratch    int64   `json:"scratch,omitempty"`     // bytes, of /tmp and of home each
	ShmSize    int64   `json:"shm_size,omitempty"`    // bytes, of /dev/shm, which count as memory
	Seconds    float64 `json:"seconds,omitempty"`     // time limit of the agent
	MaxOutput  int64   `json:"max_output,omitempty"`  // bytes, of the agent's stdout and stderr each
	MaxCalls   int64   `json:"max_calls,omitempty"`   // tool calls by the agent
	MaxMessage int64   `json:"max_message,omitempty"` // bytes, in either direction
	MaxFrames  int64   `json:"max_frames,omitempty"`  // messages per direction
	MaxTraffic int64   `json:"max_traffic,omitempty"` // bytes of messages per direction
}

// Resource is the limits and the usage of a container.
type Resource struct {
	Limits Limits `json:"limits"`
	Used   *Usage `json:"used,omitempty"`
	Unseen string `json:"unseen,omitempty"` // why Used is missing
}

// Usage is the resource usage of a container.
type Usage = observe.Usage

// ImageRecords holds the images of a run by reference.
type ImageRecords map[string]ImageRecord

// ImageRecord identifies an image used in a run.
type ImageRecord struct {
	ID string `json:"id"` // on the engine: digest of the image's configuration
	// Digests are the repository digests of the image (name@sha256:…); none if it was built
	// locally.
	Digests []string `json:"digests,omitempty"`
}

// Certificate is the result of attacks from inside a sandbox of the kind that a run's
// trials use, on the same engine and with the same build of waza.
type Certificate struct {
	Probed  Probed            `json:"probed"`
	At      time.Time         `json:"at"` // UTC
	Engine  map[string]string `json:"engine"`
	Kind    SandboxKind       `json:"kind"`
	Attacks []Attack          `json:"attacks"`
}

// With returns the attacks with a result.
func (c *Certificate) With(result AttackResult) []Attack {
	var all []Attack
	for _, a := range c.Attacks {
		if a.Result == result {
			all = append(all, a)
		}
	}
	return all
}

// Probed is when a run's certificate was made.
type Probed string

// A certificate is made for the run, or taken from an earlier run.
const (
	ProbedNow    Probed = "now"
	ProbedCached Probed = "cached"
)

// SandboxKind is what the isolation of a sandbox depends on. A certificate applies to all
// sandboxes of its kind.
type SandboxKind struct {
	Network   string `json:"network"` // bridge or airtight
	Subnets   string `json:"subnets,omitempty"`
	Runtime   string `json:"runtime,omitempty"` // empty for the engine's default
	Workspace string `json:"workspace"`         // tmpfs or volume
}

// Attack is one attempt to escape a sandbox, made from the agent's container and from a
// server's.
type Attack struct {
	Name    string       `json:"name"`
	Goal    string       `json:"goal"`
	Result  AttackResult `json:"result"`
	Detail  string       `json:"detail,omitempty"`
	Allowed bool         `json:"allowed,omitempty"` // it got out, which a flag allows
}

// AttackResult is the result of an attack.
type AttackResult string

const (
	AttackHeld     AttackResult = "held"      // it was refused, or nothing arrived
	AttackGotOut   AttackResult = "got_out"   // the sandbox did not stop it
	AttackNotTried AttackResult = "not_tried" // it could not be tried, or its result not be observed
)
