// Package probe lists the attacks of a run's certificate, and contains the programs that try them
// in a container, and the listeners outside that detect them. The programs are part of our own
// executable, so they run wherever a guest does.
//
// An attack is harmless: it closes what it opens, removes what it adds, and writes to nothing
// that it should not have access to. It reports what it saw, listeners report what arrived, and
// package selftest decides which attacks got out.
package probe

import "slices"

// Subcommand is the argument of our executable that leads to [Main].
const Subcommand = "probe"

// Programs of [Main], by its first argument.
const (
	TryAll = "attack" // reads Aims, writes a Finding for each attack
	Watch  = "watch"  // listens: writes its Place, then an Arrival for each attack that arrives, until its stdin ends
	Shared = "shared" // marks shared resources, writes a Finding, and after a line on stdin one for each attack on such resources
	Knock  = "knock"  // reads Aims, and sends to their Host from outside of any sandbox
)

// Place is where a listener listens: ports, which are the same on every address, and addresses.
type Place struct {
	TCP4  int      `json:"tcp4,omitempty"`
	UDP4  int      `json:"udp4,omitempty"`
	TCP6  int      `json:"tcp6,omitempty"`
	UDP6  int      `json:"udp6,omitempty"`
	Addrs []string `json:"addrs,omitempty"` // of all interfaces except loopback, without zones
	// Resolvers are the name servers of the place.
	Resolvers []string `json:"resolvers,omitempty"`
}

// Aims are the targets of the attacks from one container.
type Aims struct {
	Nonce      string   `json:"nonce"`     // identifies the attacks at listeners
	Host       Place    `json:"host"`      // the engine's host
	Neighbour  Place    `json:"neighbour"` // the agent of another trial
	Sibling    Place    `json:"sibling"`   // another server of the same trial
	Names      []string `json:"names"`     // that must not resolve
	SiblingAt  string   `json:"sibling_at"`
	Planted    string   `json:"planted"`    // how planted secrets begin, backwards
	Foreigners string   `json:"foreigners"` // an argument of programs in other containers, backwards

	attack string // the attack that is directed at them
}

// Reversed returns s backwards, so that a program that is told what to look for does not find it
// in itself.
func Reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// State is the result of an attack as far as its own container can tell.
type State string

const (
	Refused State = "refused"
	Sent    State = "sent" // carried out; whether it arrived, a listener knows
	Out     State = "out"
	Untried State = "untried"
)

// Finding is the result of one attack from one container.
type Finding struct {
	Attack string `json:"attack"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Arrival is an attack that reached a listener.
type Arrival struct {
	Nonce  string `json:"nonce"`
	Attack string `json:"attack"`
	Aim    string `json:"aim"` // the address that it was sent to
	Over   string `json:"over"`
}

// Control is the attack's name in what [Knock] sends.
const Control = "control"
