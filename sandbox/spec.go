package sandbox

import (
	"net/netip"
	"strconv"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Spec is what a backend opens: the containers of a sandbox and who may reach whom. It is plain
// data, decided before anything starts.
type Spec struct {
	// Run, Task, Number and Attempt identify the sandbox. Names and labels on the engine are derived
	// from them.
	Run     string
	Task    string
	Number  int // starts at 1
	Attempt int // starts at 1; 0 is also the first

	Lifetime Lifetime
	Probe    bool   // part of a certificate; all its sandboxes are on one machine
	Network  string // NetworkNone, NetworkAirtight or NetworkBridge
	Subnets  string // range of the addresses of networks; empty for the backend's default
	Runtime  string // the engine's runtime of containers; empty for its default

	Containers []ContainerSpec
	Reach      []Edge
}

// Lifetime is how long a sandbox lives.
type Lifetime int

// Lifetimes of a sandbox.
const (
	LifeOfTrial Lifetime = iota // its end frees resources for others
	LifeOfRun
)

// Networks of a sandbox.
const (
	NetworkNone     = "none"     // the machine's network: nothing is isolated
	NetworkAirtight = "airtight" // no container has an interface
	NetworkBridge   = "bridge"   // the agent's container is alone on a network
)

// WorkspaceVolume is the value of an agent's workspace that is a volume without a size limit.
const WorkspaceVolume = "volume"

// Roles of containers.
const (
	RoleAgent   = "agent"
	RoleServer  = "server"
	RoleService = "service"
)

// ContainerSpec is a container of a sandbox.
type ContainerSpec struct {
	Container
	Name      string   // [Agent], the name of a server, or see [ServiceName]
	Role      string   // RoleAgent, RoleServer or RoleService
	Who       string   // for messages, such as server "files"
	Writable  []string // directories of limited size, in addition to scratch and home
	Volume    string   // a writable directory of any size; empty for none
	MCPConfig string   // content of the read-only file [MCPConfigPath]; empty for none
	// Outside are the host names that it may reach through the runner, with loopback addresses
	// for them. A name "*.x" stands for all names below x.
	Outside map[string]netip.Addr
	// Build is what Image is built from; nil if it is pulled.
	Build images.Buildable
	// Program is its program, without Args if it is not known. Product is what must be installed to
	// run the program without a container; empty if that has no name of its own.
	Program process.Spec
	Product string
}

// AgentContainer returns the agent's container.
func AgentContainer(c Container, workspace, mcpConfig string) ContainerSpec {
	agent := ContainerSpec{Container: c, Name: Agent, Role: RoleAgent, Who: Agent, MCPConfig: mcpConfig}
	if workspace == WorkspaceVolume {
		agent.Volume = WorkspaceDir
	} else {
		agent.Writable = []string{WorkspaceDir}
	}
	return agent
}

// Edge allows the programs of a container to reach something by a name. The runner carries the
// traffic; containers have no other connection.
type Edge struct {
	From string // name of a container
	Name string // host name of To there
	// To is the name of a container, or something that the runner serves: a server without a container
	// in this sandbox, or [ModelHost].
	To    string
	Ports []int // ports of a service; empty for the HTTP port at which the agent reaches servers
}

// Label returns a name for the sandbox in its run: TASK/N, or TASK/N/ATTEMPT from the second
// attempt.
func (s *Spec) Label() string {
	label := s.Task + "/" + strconv.Itoa(s.Number)
	if s.Attempt > 1 {
		label += "/" + strconv.Itoa(s.Attempt)
	}
	return label
}

// Container returns a container by name, or nil.
func (s *Spec) Container(name string) *ContainerSpec {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// HasAgent reports whether the sandbox has an agent's container.
func (s *Spec) HasAgent() bool { return s.Container(Agent) != nil }

// From returns what the programs of a container may reach, in order.
func (s *Spec) From(container string) []Edge {
	var all []Edge
	for _, e := range s.Reach {
		if e.From == container {
			all = append(all, e)
		}
	}
	return all
}
