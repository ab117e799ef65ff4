package probe

// Attack describes an attack: its goal, and what stops it. [Attacks] lists those of the
// certificate. The attack suite tries these and others.
type Attack struct {
	Name    string // in kebab-case, unique
	Goal    string // what it tries to do, as a phrase that follows "it tries to"
	Promise Promise
	Without Defence // defense without which the attack succeeds
	// Wall is what the certificate reports if the attack gets out. It is nil for an attack that only
	// the suite tries, whose result does not depend on the configuration of an engine, a kernel or a
	// cluster.
	Wall *Wall
}

// Where returns where the attack runs: in the certificate and the suite, or only in the suite.
func (a Attack) Where() string {
	if a.Wall != nil {
		return "certificate"
	}
	return "suite"
}

// Wall is what stops attacks of one kind.
type Wall struct {
	Means string // the risk if an attack gets out
	Mend  string // how to fix that
	Pods  string // how to fix it on a cluster, if that differs
}

var (
	hostNetwork = Wall{
		"a program in a trial reaches programs on the engine's host, past the runner and unrecorded",
		"use network: airtight, or an engine that keeps an internal network without a host address (com.docker.network.bridge.inhibit_ipv4) and applies seccomp profiles",
		"set config.isolation.kubernetes.remove_interface, which leaves pods no network at all, and upgrade the container runtime of the nodes if a socket to the hypervisor can be opened",
	}
	otherTrials = Wall{
		"trials can reach each other, so one may change another's outcome",
		"let the engine manage the packet filter (\"iptables\": true in daemon.json), or use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	otherServers = Wall{
		"servers can be reached past the runner, so calls escape the record",
		"use an engine that honours network mode none",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	internet = Wall{
		"a program in a trial reaches other machines: what it does depends on them, and may tell them anything",
		"let the engine manage the packet filter (\"iptables\": true in daemon.json), or use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	resolver = Wall{
		"questions for names leave the sandbox: a program in it can learn of the world and tell it things",
		"upgrade the engine; until then use network: airtight",
		"use a network plugin that enforces NetworkPolicy, or set config.isolation.kubernetes.remove_interface",
	}
	control = Wall{
		"a program in a trial can have the engine do anything, which is root on its host",
		"do not serve the engine's API on TCP without client certificates, and keep its socket out of images and volumes",
		"keep the API of the nodes' container runtime off the network, or set config.isolation.kubernetes.remove_interface",
	}
	system = Wall{
		"a program in a trial can change or watch its machine beyond its container",
		"run the engine with its default seccomp profile and without --privileged defaults, and upgrade it",
		"upgrade the container runtime of the nodes, whose default seccomp profile has to refuse it, or set config.isolation.kubernetes.runtime_class to one that isolates more",
	}
	files = Wall{
		"a program in a trial can change what is not its own in its container, or settings of the whole machine",
		"use an engine that honours read-only roots and masked paths, with a storage driver other than vfs",
		"use a container runtime on the nodes that honours read-only roots and masked paths",
	}
	process1 = Wall{
		"a program in a trial can take over process 1 of its container, and then outlive the run",
		"use an engine and a kernel that honour PR_SET_DUMPABLE in containers, and the engine's own runtime",
		"",
	}
	kernelShared = Wall{
		"a program in a trial can use up what others need, and so change their outcome",
		"give no two containers the same user, neither in the eval nor in their images, and use an engine that honours sysctls of a network namespace and seccomp profiles",
		"use nodes with cgroup version 2 and a recent kernel, which count the buffers of connections as memory of their container",
	}
	filters = Wall{
		"a program in a trial can use up what others need, and so change their outcome",
		"use the engine's own runtime, and waza's own executable as process 1",
		"",
	}
	cores = Wall{
		"a program in a trial can have the machine run a program as root, and fill its disk with core dumps",
		"do not set the engine's limit of core dumps to 0 (\"default-ulimits\" in daemon.json), or set kernel.core_pattern to a file",
		"set kernel.core_pattern of the nodes to a file, or the limit of core dumps of their container runtime to unlimited, which waza lowers",
	}
	strangers = Wall{
		"a program in a trial sees those of other containers, or what was theirs alone",
		"use an engine that gives each container its own processes and files (no --pid=host by default)",
		"",
	}
)

// HostTCP is the name of the first attack.
const HostTCP = "host-tcp"

// Attacks returns the attacks of the certificate in its order.
func Attacks() []Attack {
	return []Attack{
		{HostTCP, "connect to a listener on every address of the engine's host", NoRoute, noHostAddress, &hostNetwork},
		{"bridge-tcp", "connect to the address that the host would have on the task network", NoRoute, noHostAddress, &hostNetwork},
		{"device-tcp", "connect to the host past the routing table (SO_BINDTODEVICE, SO_DONTROUTE)", NoRoute, filterAndNoHost, &hostNetwork},
		{"host-udp", "send datagrams to every address of the host", NoRoute, filterAndNoHost, &hostNetwork},
		{"broadcast-udp", "send a broadcast that the host would receive", NoRoute, SeccompFilter, &hostNetwork},
		{"multicast-udp", "send a multicast that the host would receive", NoRoute, SeccompFilter, &hostNetwork},
		{"device-udp", "send datagrams to the host past the routing table", NoRoute, SeccompFilter, &hostNetwork},
		{"unicast-if-udp", "send datagrams to the host with IP_UNICAST_IF", NoRoute, SeccompFilter, &hostNetwork},
		{"pktinfo-udp", "send datagrams to the host with IP_PKTINFO", NoRoute, SeccompFilter, &hostNetwork},
		{"host-ipv6", "reach the host over IPv6, by its addresses and those of each link", NoRoute, noIPv6, &hostNetwork},
		{"ping", "ping the host (ICMP echo)", NoRoute, filterAndNoHost, &hostNetwork},
		{"raw-socket", "send packets with forged headers", NoRoute, Unprivileged, &hostNetwork},
		{"packet-socket", "send raw packets on the link layer", NoRoute, Unprivileged, &hostNetwork},
		{"arp", "find other addresses of the host by ARP", NoRoute, Unprivileged, &hostNetwork},
		{"marked-packets", "mark packets (SO_MARK) to match other firewall rules of the host", NoRoute, Unprivileged, &hostNetwork},
		{"vsock", "open a socket to the hypervisor", NoRoute, SeccompFilter, &hostNetwork},
		{"routes", "add a route", NoRoute, Unprivileged, &hostNetwork},
		{"neighbour", "connect to another trial's agent", NoRoute, OwnNetwork, &otherTrials},
		{"other-server", "connect to another server of the trial directly, bypassing the runner", AllRecorded, serversApart, &otherServers},
		{"external", "connect to addresses outside", NoRoute, noWayOut, &internet},
		{"metadata", "connect to a cloud's metadata address", NoRoute, noWayOut, &internet},
		{"dns-foreign", "resolve outside names by the container's resolver", NamesStay, knownNames, &resolver},
		{"dns-engine", "resolve outside names by the engine's resolver", NamesStay, knownNames, &resolver},
		{"dns-host", "query the host's resolvers, the host and outside addresses", NamesStay, noHostAddress, &resolver},
		{"engine-socket", "connect to a container engine's socket", HostHolds, nothingOfTheHost, &control},
		{"engine-tcp", "connect to the container engine's API over TCP", NoRoute, noEngine, &control},
		{"mount", "mount a file system", HostHolds, Unprivileged, &system},
		{"user-namespace", "create a user namespace, in which it would be root", HostHolds, SeccompFilter, &system},
		{"setuid", "become root, or gain privileges by a setuid program", HostHolds, Unprivileged, &system},
		{"kernel-module", "load a kernel module", HostHolds, kernelChecks, &system},
		{"kernel-log", "read the kernel's log", HostHolds, Unprivileged, &system},
		{"keyring", "reach the kernel's keyrings", HostHolds, SeccompFilter, &system},
		{"bpf", "create a BPF map", HostHolds, Unprivileged, &system},
		{"perf-events", "open performance events", HostHolds, SeccompFilter, &system},
		{"io-uring", "set up io_uring, which bypasses seccomp filters", HostHolds, SeccompFilter, &system},
		{"make-device", "make a device node", HostHolds, Unprivileged, &system},
		{"host-devices", "open a device of the host", HostHolds, nothingOfTheHost, &system},
		{"root-files", "change files of the image, our executable or mcp.json", HostHolds, ReadOnlyRoot, &files},
		{"proc-sys", "open settings of the kernel (/proc/sys, core_pattern) for writing", HostHolds, Unprivileged, &files},
		{"sysrq", "open /proc/sysrq-trigger for writing", HostHolds, kernelChecks, &files},
		{"sysfs", "open control groups and settings in /sys for writing", HostHolds, nothingOfTheHost, &files},
		{"guest-memory", "open process 1's memory, stdin, environment or root", HostHolds, Undumpable, &process1},
		{"guest-ptrace", "trace process 1", HostHolds, Undumpable, &process1},
		{"guest-freeze", "stop process 1", HostHolds, ownProcesses, &process1},
		{"guest-signals", "kill process 1 with a signal", HostHolds, takenInSignals, &process1},
		{"shared-file", "observe a file lock that another container holds (covert channel)", AllRecorded, ownFiles, &strangers},
		{"shared-user", "observe another container's use of per-user kernel resources", OthersGoOn, OwnUsers, &kernelShared},
		{"memory-tcp", "hold memory in socket buffers outside its memory limit", OthersGoOn, smallBuffers, &kernelShared},
		{"add-filter", "add a filter of system calls, for which the machine has one pool of memory", HostHolds, noFilters, &filters},
		{"core-dump", "have a crash start the machine's program for core dumps", HostHolds, harmlessCores, &cores},
		{"processes", "see programs of other containers", HostHolds, ownProcesses, &strangers},
		{"planted-secret", "find a secret planted in the runner's environment, on the host and in another trial", SecretsStay, EmptyEnvironment, &strangers},
	}
}
