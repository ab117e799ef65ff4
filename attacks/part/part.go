// Package part holds what the hostile program and the tests that judge it both need.
package part

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// AimsEnv names the variable that has [probe.Aims] as JSON. Their nonce is the run's;
// who attacks sends [Nonce].
const AimsEnv = "AIMS"

// Port is where the hostile program listens as a server over HTTP, and as an agent that
// waits for others.
const Port = 8080

// Tool is the tool of servers: what they do when it is called is their attack.
const Tool = "poke"

// Subnets is where task networks are cut from.
const Subnets = "10.214.77.0/24"

// Attacks that others share a trial with, or whose names are needed on both sides.
const (
	Reaching     = "agent-to-server"
	ServerPorts  = "server-ports"
	TrialToTrial = "trial-to-trial"
	Tunnel       = "dns-tunnel"
	Kernel       = "userfaultfd"
	OurFiles     = "mcp-json"
	Unfiltered   = "unfiltered-server"
	UsesUp       = "uses-up-watchers"
)

// Attacks by process 1.
const (
	MuxStreams   = "mux-streams"
	MuxPings     = "mux-pings"
	MuxOversized = "mux-oversized"
	MuxGarbage   = "mux-garbage"
	MuxEmpty     = "mux-empty-frames"
	LeadsOut     = "tar-that-leads-out"
)

// TunnelZone is what names end in that data is in, and Mark the file of the workspace
// that is written after the agent's end.
const (
	TunnelZone = "tunnel.invalid"
	Mark       = "survived"
)

// Honest is the name of the attack that is none.
const Honest = "honest"

// Nonce returns what an attacker signs with: the run, the task, and its part there.
func Nonce(run, task, role string) string { return run + "." + task + "." + role }

// Word is what an attacker says of an attack. Where somebody outside can tell, it counts
// for nothing.
type Word struct {
	Attack string `json:"attack"`
	Won    bool   `json:"won"`
	Detail string `json:"detail,omitempty"`
}

// Say returns words as lines.
func Say(words []Word) string {
	var b strings.Builder
	for _, w := range words {
		line, _ := json.Marshal(w) // of two strings and a bool
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// Hear reads the words among lines.
func Hear(text string) []Word {
	var words []Word
	for line := range strings.Lines(text) {
		var w Word
		if json.Unmarshal([]byte(line), &w) == nil && w.Attack != "" {
			words = append(words, w)
		}
	}
	return words
}

// Aims reads the aims of an attacker.
func Aims(text string) (probe.Aims, error) {
	var a probe.Aims
	err := json.Unmarshal([]byte(text), &a)
	return a, err
}
