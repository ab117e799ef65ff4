package results

import "github.com/waza-isolate/waza/runner/evidence"

// Conduct is what a server did beside answering calls: in one trial, or in all that a
// card is of. Lists hold the first of what there is; More counts the others.
type Conduct struct {
	Files       []evidence.FileChange `json:"files,omitempty"`
	Programs    []evidence.Program    `json:"programs,omitempty"`
	Connections []evidence.Connection `json:"connections,omitempty"` // that it tried, to others than its own container
	Names       []AskedName           `json:"names,omitempty"`       // that it asked for, by DNS
	Egress      []EgressHost          `json:"egress,omitempty"`      // outside its sandbox
	Secrets     []string              `json:"secrets,omitempty"`     // names of those that it echoed
	Limits      []string              `json:"limits,omitempty"`      // that it ran into, as sentences go on that name its container

	MemoryPeak  *int64   `json:"memory_peak,omitempty"` // bytes
	CPUSeconds  *float64 `json:"cpu_seconds,omitempty"` // of a card: the most in a trial
	StderrBytes int64    `json:"stderr_bytes,omitempty"`
	StderrLines int64    `json:"stderr_lines,omitempty"`

	// More counts what is not listed, by the list's name in JSON.
	More map[string]int `json:"more,omitempty"`
	// Unseen says what could not be watched, and why, by the list's name in JSON. What has
	// no entry here was watched; nil where nothing on record tells of it, as in the
	// directories of older runs.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// AskedName is a name that a server's programs asked DNS for.
type AskedName struct {
	Name     string `json:"name"`
	Answered bool   `json:"answered"`
	Count    int    `json:"count"`
}

// EgressHost is a host outside, and what was carried there and back or refused.
type EgressHost struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Connections int    `json:"connections"`
	Refused     int    `json:"refused,omitempty"` // of them
	Out         int64  `json:"bytes_out"`
	In          int64  `json:"bytes_in"`
}
