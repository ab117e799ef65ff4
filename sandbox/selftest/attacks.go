package selftest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// onCluster is the engine whose containers are pods, in certificates.
const onCluster = "kubernetes"

// wall is what stops attacks of one kind.
type wall struct {
	means string // the risk if an attack gets out
	mend  string // how to fix that
	pods  string // how to fix it on a cluster, if that differs
}

var (
	hostNetwork = wall{
		"a program in a trial reaches programs on the engine's host, past the runner and unrecorded",
		"use network: airtight, or an engine that keeps an internal network without a host address (com.docker.network.bridge.inhibit_ipv4) and applies seccomp profiles",
		"set config.isolation.kubernetes.remove_interface, which leaves pods no network at all, and upgrade the container runtime of the nodes if a socket to the hypervisor can be opened",
	}
	otherTrials = wall{
		"trials can reach each other, so one may change another's outcome",
		"let the engine manage the packet filter (\"iptables\": true in daemon.json), or use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	otherServers = wall{
		"servers can be reached past the runner, so calls escape the record",
		"use an engine that honours network mode none",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	internet = wall{
		"a program in a trial reaches other machines: what it does depends on them, and may tell them anything",
		"let the engine manage the packet filter (\"iptables\": true in daemon.json), or use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	resolver = wall{
		"questions for names leave the sandbox: a program in it can learn of the world and tell it things",
		"upgrade the engine; until then use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	control = wall{
		"a program in a trial can have the engine do anything, which is root on its host",
		"do not serve the engine's API on TCP without client certificates, and keep its socket out of images and volumes",
		"keep the API of the nodes' container runtime off the network, or set config.isolation.kubernetes.remove_interface",
	}
	system = wall{
		"a program in a trial can change or watch its machine beyond its container",
		"run the engine with its default seccomp profile and without --privileged defaults, and upgrade it",
		"upgrade the container runtime of the nodes, whose default seccomp profile has to refuse it, or set config.isolation.kubernetes.runtime_class to one that isolates more",
	}
	files = wall{
		"a program in a trial can change what is not its own in its container, or settings of the whole machine",
		"use an engine that honours read-only roots and masked paths, with a storage driver other than vfs",
		"use a container runtime on the nodes that honours read-only roots and masked paths",
	}
	process1 = wall{
		"a program in a trial can take over process 1 of its container, and then outlive the run",
		"use an engine and a kernel that honour PR_SET_DUMPABLE in containers, and the engine's own runtime",
		"",
	}
	shared = wall{
		"a program in a trial can use up what others need, and so change their outcome",
		"give no two containers the same user, neither in the eval nor in their images, and use an engine that honours sysctls of a network namespace and seccomp profiles",
		"use nodes with cgroup version 2 and a recent kernel, which count the buffers of connections as memory of their container",
	}
	filters = wall{
		"a program in a trial can use up what others need, and so change their outcome",
		"use the engine's own runtime, and waza's own executable as process 1",
		"",
	}
	cores = wall{
		"a program in a trial can have the machine run a program as root, and fill its disk with core dumps",
		"do not set the engine's limit of core dumps to 0 (\"default-ulimits\" in daemon.json), or set kernel.core_pattern to a file",
		"set kernel.core_pattern of the nodes to a file, or the limit of core dumps of their container runtime to unlimited, which waza lowers",
	}
	strangers = wall{
		"a program in a trial sees those of other containers, or what was theirs alone",
		"use an engine that gives each container its own processes and files (no --pid=host by default)",
		"",
	}
)

// attack is an attack that is tried.
type attack struct {
	name string
	goal string // what it tries to do, as a phrase that follows "it tries to"
	wall wall
}

// attacks lists all attacks in the order of reports.
func attacks() []attack {
	return []attack{
		{probe.HostTCP, "connect to a listener on every address of the engine's host", hostNetwork},
		{probe.BridgeTCP, "connect to the address that the host would have on the task network", hostNetwork},
		{probe.DeviceTCP, "connect to the host past the routing table (SO_BINDTODEVICE, SO_DONTROUTE)", hostNetwork},
		{probe.HostUDP, "send datagrams to every address of the host", hostNetwork},
		{probe.BroadcastUDP, "send a broadcast that the host would receive", hostNetwork},
		{probe.MulticastUDP, "send a multicast that the host would receive", hostNetwork},
		{probe.DeviceUDP, "send datagrams to the host past the routing table", hostNetwork},
		{probe.UnicastIfUDP, "send datagrams to the host with IP_UNICAST_IF", hostNetwork},
		{probe.PktinfoUDP, "send datagrams to the host with IP_PKTINFO", hostNetwork},
		{probe.HostIPv6, "reach the host over IPv6, by its addresses and those of each link", hostNetwork},
		{probe.Ping, "ping the host (ICMP echo)", hostNetwork},
		{probe.RawSocket, "send packets with forged headers", hostNetwork},
		{probe.PacketSocket, "send raw packets on the link layer", hostNetwork},
		{probe.ARP, "find other addresses of the host by ARP", hostNetwork},
		{probe.MarkedPackets, "mark packets (SO_MARK) to match other firewall rules of the host", hostNetwork},
		{probe.Vsock, "open a socket to the hypervisor", hostNetwork},
		{probe.Routes, "add a route", hostNetwork},
		{probe.Neighbour, "connect to another trial's agent", otherTrials},
		{probe.OtherServer, "connect to another server of the trial directly, bypassing the runner", otherServers},
		{probe.External, "connect to addresses outside", internet},
		{probe.Metadata, "connect to a cloud's metadata address", internet},
		{probe.DNSForeign, "resolve outside names by the container's resolver", resolver},
		{probe.DNSEngine, "resolve outside names by the engine's resolver", resolver},
		{probe.DNSHost, "query the host's resolvers, the host and outside addresses", resolver},
		{probe.EngineSocket, "connect to a container engine's socket", control},
		{probe.EngineTCP, "connect to the container engine's API over TCP", control},
		{probe.Mount, "mount a file system", system},
		{probe.UserNamespace, "create a user namespace, in which it would be root", system},
		{probe.Setuid, "become root, or gain privileges by a setuid program", system},
		{probe.KernelModule, "load a kernel module", system},
		{probe.KernelLog, "read the kernel's log", system},
		{probe.Keyring, "reach the kernel's keyrings", system},
		{probe.BPF, "create a BPF map", system},
		{probe.PerfEvents, "open performance events", system},
		{probe.IOUring, "set up io_uring, which bypasses seccomp filters", system},
		{probe.MakeDevice, "make a device node", system},
		{probe.HostDevices, "open a device of the host", system},
		{probe.RootFiles, "change files of the image, our executable or mcp.json", files},
		{probe.ProcSys, "open settings of the kernel (/proc/sys, core_pattern) for writing", files},
		{probe.Sysrq, "open /proc/sysrq-trigger for writing", files},
		{probe.Sysfs, "open control groups and settings in /sys for writing", files},
		{probe.GuestMemory, "open process 1's memory, stdin, environment or root", process1},
		{probe.GuestPtrace, "trace process 1", process1},
		{probe.GuestFreeze, "stop process 1", process1},
		{probe.GuestSignals, "kill process 1 with a signal", process1},
		{probe.SharedFile, "observe a file lock that another container holds (covert channel)", strangers},
		{probe.SharedUser, "observe another container's use of per-user kernel resources", shared},
		{probe.MemoryTCP, "hold memory in socket buffers outside its memory limit", shared},
		{probe.AddFilter, "add a filter of system calls, for which the machine has one pool of memory", filters},
		{probe.CoreDump, "have a crash start the machine's program for core dumps", cores},
		{probe.Processes, "see programs of other containers", strangers},
		{probe.PlantedSecret, "find a secret planted in the runner's environment, on the host and in another trial", strangers},
	}
}

// Names lists the names of the attacks.
func Names() []string {
	var names []string
	for _, a := range attacks() {
		names = append(names, a.name)
	}
	return names
}

// CheckNames returns an error if there is no attack of one of the names.
func CheckNames(names []string) error {
	known := Names()
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no attack %q; %s", name, strictyaml.Suggest(name, known))
		}
	}
	return nil
}

// markAllowed marks attacks that got out and whose names are allowed, and returns a sentence about each
// other one that got out.
func markAllowed(c *evidence.Certificate, names []string) []string {
	var holes []string
	for i := range c.Attacks {
		a := &c.Attacks[i]
		if a.Result != evidence.AttackGotOut {
			continue
		}
		if a.Allowed = slices.Contains(names, a.Name); !a.Allowed {
			holes = append(holes, Explain(c, *a))
		}
	}
	return holes
}

// Explain describes an attack that got out, its risk for a run, and how to fix it.
func Explain(c *evidence.Certificate, a evidence.Attack) string {
	for _, known := range attacks() {
		if known.name == a.Name {
			mend := known.wall.mend
			if c.Engine["engine"] == onCluster {
				mend = cmp.Or(known.wall.pods, mend)
			}
			return fmt.Sprintf("%s got out (it tried to %s: %s): %s. To mend it, %s.", a.Name, a.Goal, a.Detail, known.wall.means, mend)
		}
	}
	return a.Name + " got out: " + a.Detail
}

// Goal returns what an attack tries to do, as a phrase that follows "it tries to".
func Goal(name string) string {
	for _, known := range attacks() {
		if known.name == name {
			return known.goal
		}
	}
	return ""
}
