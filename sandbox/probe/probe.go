// Package probe holds the programs that try to get out of a container, and the listeners
// outside that notice. They are part of our own executable, so they run wherever a guest
// does.
//
// An attack breaks nothing: what it opens it closes, what it adds it removes, and it
// writes nothing to what it must not have. It says what it saw; what arrived is for
// the listeners to say, and which attacks count as holes for package selftest.
package probe

import "slices"

// Subcommand is the argument of our executable that leads to [Main].
const Subcommand = "probe"

// What Main does, by its first argument.
const (
	Attack = "attack" // reads Aims, writes a Finding for each attack
	Watch  = "watch"  // writes a Place, then an Arrival for each that came, until its stdin ends
	Shared = "shared" // writes a Finding once it is marked, and one for each attack on what is shared after a line
	Knock  = "knock"  // reads Aims, and tries to reach their Host with no wall between
)

// Place is where something listens. Ports are those of every address.
type Place struct {
	TCP4  int      `json:"tcp4,omitempty"`
	UDP4  int      `json:"udp4,omitempty"`
	TCP6  int      `json:"tcp6,omitempty"`
	UDP6  int      `json:"udp6,omitempty"`
	Addrs []string `json:"addrs,omitempty"` // of all interfaces but loopback; no zones
	// Resolvers are the name servers of the place.
	Resolvers []string `json:"resolvers,omitempty"`
}

// Aims is what attacks are directed at.
type Aims struct {
	Nonce      string   `json:"nonce"`     // what listeners know an attack by
	Host       Place    `json:"host"`      // the engine's host
	Neighbour  Place    `json:"neighbour"` // the agent of another trial
	Sibling    Place    `json:"sibling"`   // another server of the same trial
	Names      []string `json:"names"`     // that must not resolve
	SiblingAt  string   `json:"sibling_at"`
	Planted    string   `json:"planted"`    // how planted secrets begin, backwards
	Foreigners string   `json:"foreigners"` // an argument of programs in other containers, backwards
}

// Reversed returns s backwards, so that a program that is told what to look for does not find it
// in itself.
func Reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// State is what an attack saw of itself.
type State string

const (
	Refused State = "refused"
	Sent    State = "sent" // carried out; whether it arrived, a listener knows
	Out     State = "out"
	Untried State = "untried"
)

// Finding is what came of one attack in one container.
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

// Control is the name that Knock gives its own attempts.
const Control = "control"

// Names of the attacks.
const (
	HostTCP       = "host-tcp"
	HostUDP       = "host-udp"
	HostIPv6      = "host-ipv6"
	BridgeTCP     = "bridge-tcp"
	BroadcastUDP  = "broadcast-udp"
	MulticastUDP  = "multicast-udp"
	DeviceUDP     = "device-udp"
	DeviceTCP     = "device-tcp"
	UnicastIfUDP  = "unicast-if-udp"
	PktinfoUDP    = "pktinfo-udp"
	RawSocket     = "raw-socket"
	PacketSocket  = "packet-socket"
	ARP           = "arp"
	Ping          = "ping"
	MarkedPackets = "marked-packets"
	Vsock         = "vsock"
	Routes        = "routes"
	Neighbour     = "neighbour"
	OtherServer   = "other-server"
	External      = "external"
	Metadata      = "metadata"
	DNSForeign    = "dns-foreign"
	DNSEngine     = "dns-engine"
	DNSHost       = "dns-host"
	EngineSocket  = "engine-socket"
	EngineTCP     = "engine-tcp"
	Mount         = "mount"
	UserNamespace = "user-namespace"
	RootFiles     = "root-files"
	ProcSys       = "proc-sys"
	Sysrq         = "sysrq"
	Sysfs         = "sysfs"
	MakeDevice    = "make-device"
	HostDevices   = "host-devices"
	Setuid        = "setuid"
	Keyring       = "keyring"
	BPF           = "bpf"
	PerfEvents    = "perf-events"
	IOUring       = "io-uring"
	KernelModule  = "kernel-module"
	KernelLog     = "kernel-log"
	Processes     = "processes"
	GuestMemory   = "guest-memory"
	GuestPtrace   = "guest-ptrace"
	GuestFreeze   = "guest-freeze"
	GuestSignals  = "guest-signals"
	PlantedSecret = "planted-secret"
	SharedFile    = "shared-file"
	SharedUser    = "shared-user"
	MemoryTCP     = "memory-tcp"
)
