// Package part contains what the hostile program and the tests that judge it share.
package part

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// AimsEnv names the environment variable with [probe.Aims] as JSON. The nonce in it is that
// of the run; an attacker sends [Nonce].
const AimsEnv = "AIMS"

// Port is the port of the hostile program as an HTTP server, and as an agent that waits for
// others.
const Port = 8080

// Tool is the tool of the hostile servers. Calling it starts the attack.
const Tool = "poke"

// Subnets is the address range of the task networks.
const Subnets = "10.214.77.0/24"

// Attacks whose trial others share, or whose names both sides need.
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

// TunnelZone is the suffix of DNS names that carry data, and Mark the file in the workspace
// that is written after the agent's end.
const (
	TunnelZone = "tunnel.invalid"
	Mark       = "survived"
)

// Leased is the attack by a server that holds a lease on LeasedFile.
const (
	Leased     = "leased-file"
	LeasedFile = "/tmp/leased"
)

// Honest is the name for no attack.
const Honest = "honest"

// Nonce identifies an attacker: the run, the task, and its role.
func Nonce(run, task, role string) string { return run + "." + task + "." + role }

// Word is an attacker's report about an attack. It does not count if the result is visible
// from outside.
type Word struct {
	Attack string `json:"attack"`
	Won    bool   `json:"won"`
	Detail string `json:"detail,omitempty"`
}

// Say returns words as lines of JSON.
func Say(words []Word) string {
	var b strings.Builder
	for _, w := range words {
		line, _ := json.Marshal(w) // plain data
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// Hear returns the words in text.
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

// Aims decodes the targets of an attacker.
func Aims(text string) (probe.Aims, error) {
	var a probe.Aims
	err := json.Unmarshal([]byte(text), &a)
	return a, err
}
