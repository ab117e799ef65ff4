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
	return without(openBuild, "each container is checked for its walls", "CheckedWalls")
}

func knownNames() Defence {
	return without(openBuild, "only names of the trial are resolved", "NamesOfTrial")
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
	return without(openBuild, "nothing of the runner's environment in containers", "EmptyEnvironment")
}

func privileges() Defence {
	return without(rootBuild, "a non-root user without capabilities, and the seccomp filter", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

func writableRoot() Defence {
	return without(rootBuild, "a read-only root", "ReadOnlyRoot", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

func ownFiles() Defence {
	return without(openBuild, "no file is shared between containers", "OwnFiles")
}

func ownUsers() Defence {
	return without(openBuild, "a separate user for each container", "OwnUsers")
}

func smallBuffers() Defence {
	return without(laxBuild, "small socket buffers", "SmallTCPBuffers")
}

func noFilters() Defence {
	return without(rootBuild, "programs cannot add filters of system calls", "NoFilters", "SeccompFilter")
}

func noCoreDumps() Defence {
	return without(rootBuild, "programs cannot change their limit of core dumps", "NoCoreDumps")
}

func hiddenNames() Defence {
	return without(rootBuild, "names of the host are hidden", "HiddenNames", "Unprivileged")
}

func nothingOfTheHost() Defence {
	return without(rootBuild, "nothing of the host in a container", "NothingOfTheHost", "Unprivileged", "SeccompFilter", "CheckedWalls")
}

// Process 1, and the end of containers.

func undumpable() Defence {
	return without(guestBuild, "process 1 is not dumpable", "Undumpable")
}

// undumpableAndFilter is a pair of defenses against what the filter alone would stop too.
func undumpableAndFilter() Defence {
	return without(guestBuild, "the seccomp filter, and process 1 that cannot be dumped", "Undumpable", "SeccompFilter", "CheckedWalls")
}

func takenInSignals() Defence {
	return without(leakyBuild, "process 1 catches and ignores signals", "SignalsTakenIn")
}

func soleProgram() Defence {
	return without(guestBuild, "nothing outlives the agent in its container", "SoleProgram")
}

func killing() Defence {
	return without(guestBuild, "SIGKILL after SIGTERM", "KilledAgents")
}

func ending() Defence {
	return without(guestBuild, "containers end when the runner closes their stdin", "EndingContainers")
}

func guarded() Defence {
	return without(wireBuild, "a guard before the mux", "MuxGuard")
}

// Limits.

func fewConnections() Defence {
	return without(wireBuild, "a limit of connections of the agent", "FewConnections")
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
	return without(laxBuild, "graders do not follow symlinks in the workspace", "LinksUnfollowed")
}

func linksAsLinks() Defence {
	return without(laxBuild, "symlinks are collected as symlinks", "LinksAsLinks")
}

func rightsDropped() Defence {
	return without(laxBuild, "setuid bits are dropped when files are copied", "PlainRights")
}

func everyDirectory() Defence {
	return without(laxBuild, "directories may have any name", "EveryName")
}

func rightsRestored() Defence {
	return without(laxBuild, "closed directories are opened to collect them", "RestoredRights")
}

func restRead() Defence {
	return without(guestBuild, "what cannot be read hides nothing else", "ReadableRest")
}

func lossesBlamed() Defence {
	return without(laxBuild, "evidence that the agent spoilt is its fault", "BlamedLosses")
}

func fewLevels() Defence {
	return without(laxBuild, "a limit of nested directories", "FewLevels")
}

func pipesUnopened() Defence {
	return without(laxBuild, "pipes are listed, not opened", "UnopenedPipes")
}

func confinedTar() Defence {
	return without(wireBuild, "extraction that cannot leave its directory", "ConfinedTrees")
}

func exitCodeCounts() Defence {
	return without(laxBuild, "the exit code of graders' programs", "ExitCodesCount")
}

func noPassOutOfMemory() Defence {
	return without(laxBuild, "a program that ran out of memory does not pass", "NoPassOutOfMemory")
}

func frozenWorkspace() Defence {
	return without(laxBuild, "each program gets the workspace as it was collected", "FrozenWorkspace")
}

// Egress and secrets.

func egressPolicy() Defence {
	return without(leakyBuild, "the egress policy", "EgressPolicy")
}

func tunnelsAsNamed() Defence {
	return without(leakyBuild, "the SNI must name the host of the tunnel", "TunnelsAsNamed")
}

// hostsAsConnected is a pair of defenses, one behind the other.
func hostsAsConnected() Defence {
	return without(leakyBuild, "the Host header must name the connected host, and the egress policy", "HostsAsConnected", "EgressPolicy")
}

func namedFiles() Defence {
	return without(leakyBuild, "files that the command line does not name are asked about", "NamedFiles")
}

func offline() Defence {
	return without(leakyBuild, "what is about to fetch asks whether it may", "Offline")
}

func onlySpans() Defence {
	return without(leakyBuild, "only recorded spans tell where a secret was removed", "OnlySpans")
}

func redaction() Defence {
	return without(leakyBuild, "secrets are redacted from everything written", "Redaction")
}
