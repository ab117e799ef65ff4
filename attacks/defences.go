package attacks

// Networks, names and container isolation.

func filter() Defence {
	return without(openBuild, "the seccomp filter", "SeccompFilter", "CheckedWalls")
}

func noHostAddress() Defence {
	return without(openBuild, "no address of the host on a task network", "NoHostAddress", "CheckedWalls")
}

func filterAndNoHost() Defence {
	return without(openBuild, "the seccomp filter, and no address of the host on a task network", "SeccompFilter", "NoHostAddress", "CheckedWalls")
}

func noIPv6() Defence {
	return without(openBuild, "no IPv6 on task networks", "NoIPv6", "CheckedWalls")
}

func checkedWalls() Defence {
	return without(openBuild, "walls that are looked for in each container", "CheckedWalls")
}

func knownNames() Defence {
	return without(openBuild, "names of the trial alone", "NamesOfTrial")
}

func unknownNames() Defence {
	return without(openBuild, "NXDOMAIN for every other name", "UnknownNamesRefused")
}

func serversStandAlone() Defence {
	return without(openBuild, "no network for servers", "NoNetworkForServers", "CheckedWalls")
}

func oneServerPort() Defence {
	return without(openBuild, "one port for all servers", "OneServerPort")
}

func graderAlone() Defence {
	return without(openBuild, "no network for graders' programs", "NoNetworkForPrograms", "NoHostAddress", "CheckedWalls")
}

func emptyEnvironment() Defence {
	return without(openBuild, "no environment of the runner's", "EmptyEnvironment")
}

func privileges() Defence {
	return without(rootBuild, "a user other than root, without capabilities, under a filter", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

func writableRoot() Defence {
	return without(rootBuild, "a read-only root", "ReadOnlyRoot", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

func ownFiles() Defence {
	return without(openBuild, "files that no two containers have in common", "OwnFiles")
}

func ownUsers() Defence {
	return without(openBuild, "a user of its own for each container", "OwnUsers")
}

func smallBuffers() Defence {
	return without(laxBuild, "small buffers of connections", "SmallTCPBuffers")
}

func nothingOfTheHost() Defence {
	return without(rootBuild, "nothing of the host's in a container", "NothingOfTheHost", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

// Process 1, and the end of containers.

func undumpable() Defence {
	return without(guestBuild, "process 1 that cannot be dumped", "Undumpable")
}

// undumpableAndFilter is a pair of defenses against what the filter alone would stop too.
func undumpableAndFilter() Defence {
	return without(guestBuild, "the seccomp filter, and process 1 that cannot be dumped", "Undumpable", "SeccompFilter", "CheckedWalls")
}

func takenInSignals() Defence {
	return without(leakyBuild, "signals that process 1 takes in", "SignalsTakenIn")
}

func soleProgram() Defence {
	return without(guestBuild, "nothing outlives the agent in its container", "SoleProgram")
}

func killing() Defence {
	return without(guestBuild, "SIGKILL after SIGTERM", "KilledAgents")
}

func ending() Defence {
	return without(guestBuild, "containers that end with the runner's end of their stdin", "EndingContainers")
}

func guarded() Defence {
	return without(wireBuild, "a guard before the mux", "MuxGuard")
}

// Limits.

func fewConnections() Defence {
	return without(wireBuild, "an agent has so many connections", "FewConnections")
}

func sizedDirectories() Defence {
	return without(laxBuild, "a size limit of writable directories", "SizedDirectories")
}

func fewFiles() Defence {
	return without(laxBuild, "a limit of files", "FewFiles")
}

func sharedMemory() Defence {
	return without(laxBuild, "a size limit of /dev/shm", "SizedSharedMemory")
}

func someProcesses() Defence {
	return without(laxBuild, "a limit of processes", "FewProcesses")
}

func someMemory() Defence {
	return without(laxBuild, "a limit of memory", "BoundedMemory")
}

func someFiles() Defence {
	return without(laxBuild, "a limit of open files", "FewOpenFiles")
}

func someCPU() Defence {
	return without(laxBuild, "a limit of processors", "BoundedCPU")
}

func someOutput() Defence {
	return without(laxBuild, "a limit of the agent's output", "BoundedOutput")
}

func someStderr() Defence {
	return without(laxBuild, "a limit of servers' stderr", "BoundedStderr")
}

func boundedTree() Defence {
	return without(laxBuild, "a limit of what is collected", "BoundedTrees")
}

// File trees and graders' programs.

func linksUnfollowed() Defence {
	return without(laxBuild, "links of the workspace that graders do not follow", "LinksUnfollowed")
}

func linksAsLinks() Defence {
	return without(laxBuild, "links that are collected as links", "LinksAsLinks")
}

func rightsDropped() Defence {
	return without(laxBuild, "files that are put without rights of their owner's", "PlainRights")
}

func everyDirectory() Defence {
	return without(laxBuild, "directories of any name", "EveryName")
}

func fewLevels() Defence {
	return without(laxBuild, "a limit of directories in directories", "FewLevels")
}

func pipesUnopened() Defence {
	return without(laxBuild, "pipes that are told of, not opened", "UnopenedPipes")
}

func confinedTar() Defence {
	return without(wireBuild, "trees that are put into a directory and nowhere else", "ConfinedTrees")
}

func exitCodeCounts() Defence {
	return without(laxBuild, "the exit code of graders' programs", "ExitCodesCount")
}

func noPassOutOfMemory() Defence {
	return without(laxBuild, "no pass for programs that ran out of memory", "NoPassOutOfMemory")
}

func frozenWorkspace() Defence {
	return without(laxBuild, "the workspace as it was collected, for each program", "FrozenWorkspace")
}

// Egress and secrets.

func egressPolicy() Defence {
	return without(leakyBuild, "the policy of egress", "EgressPolicy")
}

func tunnelsAsNamed() Defence {
	return without(leakyBuild, "TLS that names the host of its tunnel", "TunnelsAsNamed")
}

// hostsAsConnected is a pair of defenses, one behind the other.
func hostsAsConnected() Defence {
	return without(leakyBuild, "requests for the host that was connected to, and the policy of egress", "HostsAsConnected", "EgressPolicy")
}

func redaction() Defence {
	return without(leakyBuild, "secrets taken out of all that is written", "Redaction")
}
