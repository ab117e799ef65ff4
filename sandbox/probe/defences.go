package probe

// Promise is what waza promises to users who run untrusted code, as a sentence.
type Promise string

const (
	NoRoute Promise = "No container has a route anywhere but to the declared names of its own trial: not to the internet, " +
		"not to the host, not to another trial, not from one server to another, not from a server to the agent."
	AllRecorded Promise = "The agent reaches a server only through the runner, so no call escapes capture, and none is taken for another's."
	NamesStay   Promise = "Names resolve only inside the trial: a question goes no further than the container's guest and the runner."
	ByPolicy    Promise = "What leaves at all leaves from the runner, through a policy, recorded."
	SecretsStay Promise = "Secrets that the runner can add on the way out are never inside a container; one that a server must hold goes to that server alone, and is redacted in everything written."
	NamedAlone  Promise = "A file that the user did not name gets nothing of the environment before the user allows it."
	NoneFetched Promise = "A command with --offline fetches no image, no package and no repository, whatever an eval names."
	NothingLeft Promise = "When the runner dies, at any moment and in any way, every container dies within seconds; and no trial outlives its end."
	CalledRight Promise = "What was not isolated is not called isolated: each run records the guarantees that were really in force."
	HostHolds   Promise = "A program in a container changes nothing of its machine, of its own process 1, nor of what was put there for it to read."
	OthersGoOn  Promise = "Whatever a trial does, the runner stays within bounds and other trials get the verdicts that they would get without it."
	InertOutput Promise = "What a program says reaches a terminal, a report or a file as text: it does nothing there."
	FairVerdict Promise = "A verdict rests on what was recorded: no agent and no server changes what a grader sees, or what it is judged by."
)

// Promises returns the promises in the order of docs/attacks.md.
func Promises() []Promise {
	return []Promise{
		NoRoute, AllRecorded, NamesStay, ByPolicy, SecretsStay, NamedAlone, NoneFetched, NothingLeft, CalledRight, HostHolds, OthersGoOn, InertOutput, FairVerdict,
	}
}

// Defence is a defense that stops attacks, with the way to remove it.
type Defence struct {
	Name string // short description, unique
	// Constants are the constants of package defence that are set to false to remove it.
	// Two defenses may share one.
	Constants []string
	// Build names the executable without this defense. Defenses share a build if the
	// attacks that they stop do not interfere.
	Build string
	// Kept says why it is not removed. Constants and Build are empty then, and
	// docs/attacks.md lists the reason.
	Kept string
}

// Builds of the executable, by the defenses that they lack.
const (
	OpenBuild  = "open"  // networks, names, filter
	RootBuild  = "root"  // privileges, read-only files
	GuestBuild = "guest" // process 1, and the end of containers
	LeakyBuild = "leaky" // egress, secrets, and records of an agent's traffic
	WireBuild  = "wire"  // processing of MCP messages
	LaxBuild   = "lax"   // limits
)

// Without returns a defense that is removed by setting constants to false.
func Without(build, name string, constants ...string) Defence {
	return Defence{Name: name, Build: build, Constants: constants}
}

// Kept returns a defense that is not removed.
func Kept(name, why string) Defence { return Defence{Name: name, Kept: why} }

// elsewhere returns a defense of the engine, which has no constant. The tests of package
// containers remove it.
func elsewhere(name, with string) Defence {
	return Kept(name, "enforced by the engine; in tests of containers the same attack runs with "+with)
}

// Defenses that stop attacks of the certificate. Those that are exported stop others too.
var (
	SeccompFilter    = Without(OpenBuild, "the seccomp filter", "SeccompFilter", "CheckedWalls")
	Unprivileged     = Without(RootBuild, "a non-root user without capabilities, and the seccomp filter", "Unprivileged", "SeccompFilter", "CheckedWalls")
	ReadOnlyRoot     = Without(RootBuild, "a read-only root", "ReadOnlyRoot", "Unprivileged", "SeccompFilter", "CheckedWalls")
	Undumpable       = Without(GuestBuild, "process 1 is not dumpable", "Undumpable")
	EmptyEnvironment = Without(OpenBuild, "nothing of the runner's environment in containers", "EmptyEnvironment")
	OwnUsers         = Without(OpenBuild, "a separate user for each container", "OwnUsers")
	OwnNetwork       = elsewhere("a network for each trial", "two trials on one network")

	noHostAddress    = Without(OpenBuild, "no address of the host on a task network", "NoHostAddress", "CheckedWalls")
	filterAndNoHost  = Without(OpenBuild, "the seccomp filter, and no address of the host on a task network", "SeccompFilter", "NoHostAddress", "CheckedWalls")
	noIPv6           = Without(OpenBuild, "no IPv6 on task networks", "NoIPv6", "CheckedWalls")
	knownNames       = Without(OpenBuild, "only names of the trial are resolved", "NamesOfTrial")
	ownFiles         = Without(OpenBuild, "no file is shared between containers", "OwnFiles")
	smallBuffers     = Without(LaxBuild, "small socket buffers", "SmallTCPBuffers")
	noFilters        = Without(RootBuild, "programs cannot add filters of system calls", "NoFilters", "SeccompFilter")
	nothingOfTheHost = Without(RootBuild, "nothing of the host in a container", "NothingOfTheHost", "Unprivileged", "SeccompFilter", "CheckedWalls")
	takenInSignals   = Without(LeakyBuild, "process 1 catches and ignores signals", "SignalsTakenIn")
	serversApart     = elsewhere("no network for servers, as the probe sees it", "servers on the network")
	noWayOut         = elsewhere("no route out of a task network", "a network around an address outside")
	noEngine         = elsewhere("no reachable API of the engine", "the engine's port in a container")
	ownProcesses     = elsewhere("a PID namespace for each container", "the processes of the host in a container")
	kernelChecks     = Kept("the kernel's permission checks for modules and magic SysRq",
		"no kernel that this was tried on has either; what they ask for is refused before")
	harmlessCores = Kept("programs cannot change their limit of core dumps, as the probe sees it",
		"where core_pattern is a file, as on the machine where waza is developed, no crash starts a program; core-limit shows what holds the limit")
)
