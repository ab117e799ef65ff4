// Package defence names each defence as a constant that a test can turn off to show that an
// attack then succeeds. All constants are true, so the compiler removes the code for the
// other case, and no file, variable or argument can change them. The tests of package
// attacks build weakened executables by replacing this file with go build -overlay.
//
// The package contains nothing else and imports nothing.
package defence

// Containers and their networks.
const (
	// SeccompFilter applies a seccomp filter to every container. Without it programs can
	// send datagrams, choose an interface, and use system calls that containers do not
	// need.
	SeccompFilter = true
	// CheckedWalls rejects a container whose guest finds that it is not isolated. Without
	// it the container is used and reported as isolated.
	CheckedWalls = true
	// NoHostAddress keeps the host from having an address on a task network. Without it
	// containers can reach services on the host.
	NoHostAddress = true
	// NoIPv6 disables IPv6 on task networks. Without it the host can be reached by its
	// link-local address.
	NoIPv6 = true
	// NoNetworkForServers gives servers no network. Without it the agent can reach servers
	// without the runner, and servers can reach each other and the agent.
	NoNetworkForServers = true
	// NoNetworkForPrograms gives a grader's program no network. Without it the program can
	// reach the host.
	NoNetworkForPrograms = true
	// OneServerPort lets the agent's guest listen only on the port of the servers. Without
	// it another port answers the agent too.
	OneServerPort = true
	// NamesOfTrial resolves only the trial's own names. Without it a name of the engine
	// resolves.
	NamesOfTrial = true
	// UnknownNamesRefused answers all other names with NXDOMAIN. Without it the answer
	// indicates that the name exists.
	UnknownNamesRefused = true
	// EmptyEnvironment keeps the runner's environment out of containers. Without it they
	// have the runner's secrets.
	EmptyEnvironment = true
	// Unprivileged runs programs as a user other than root, without capabilities and with
	// kernel settings masked. Without it they can do everything that root in a container
	// can.
	Unprivileged = true
	// ReadOnlyRoot makes the root file system of a container read-only. Without it programs
	// can change the files of their image.
	ReadOnlyRoot = true
	// OwnFiles gives each container its own inodes. Without it all containers share the
	// inode of the executable of process 1, and a lock on it is a covert channel.
	OwnFiles = true
	// OwnUsers gives each container its own user. Without it all use the same, and one
	// container can exhaust the kernel's limits per user.
	OwnUsers = true
	// SmallTCPBuffers limits the buffers of TCP connections. Without it they can use many
	// times the memory of a container.
	SmallTCPBuffers = true
	// NoFilters keeps programs from adding seccomp filters. Without it they can use up the machine's
	// memory for compiled filters.
	NoFilters = true
	// NoCoreDumps keeps programs from changing the limit of core dumps. Without it a crash can start
	// the machine's program for core dumps.
	NoCoreDumps = true
	// HiddenNames hides names of the host from containers. Without it they can read the kernel's
	// arguments, and the names of disks, of their control group and of the runner's directory.
	HiddenNames = true
	// NothingOfTheHost keeps the host's files and devices out of containers. Without it
	// they have the control groups, a device and the engine's socket.
	NothingOfTheHost = true
)

// Process 1 of a container, and the termination of containers.
const (
	// Undumpable keeps other processes from reading or tracing process 1. Without it they
	// can read its memory and take over its file descriptors.
	Undumpable = true
	// SignalsTakenIn lets process 1 survive signals. Without it any process can end it.
	SignalsTakenIn = true
	// SoleProgram ends every process in the agent's container with the agent. Without it
	// they can change the workspace before it is graded.
	SoleProgram = true
	// KilledAgents sends SIGKILL to an agent that ignores SIGTERM. Without it the agent
	// continues after its time limit.
	KilledAgents = true
	// EndingContainers ends a container when the runner closes its stdin, and kills it if
	// it does not end. Without it containers outlive their trial and the runner.
	EndingContainers = true
	// MuxGuard checks data from a guest against limits before yamux reads it. Without it a
	// guest that was taken over can flood the runner.
	MuxGuard = true
	// FewConnections limits the concurrent connections of an agent. Without it an agent can
	// hold hundreds.
	FewConnections = true
)

// Limits of containers, and of what is kept of their output.
const (
	// SizedDirectories limits the bytes in a writable directory. Without it the limit is
	// twice as high.
	SizedDirectories = true
	// FewFiles limits the files in a writable directory. Without it the limit is 16 times
	// as high.
	FewFiles = true
	// SizedSharedMemory limits /dev/shm. Without it the limit is eight times as high.
	SizedSharedMemory = true
	// FewProcesses limits the processes of a container. Without it the limit is four times
	// as high.
	FewProcesses = true
	// BoundedMemory limits the memory of a container. Without it the limit is four times as
	// high.
	BoundedMemory = true
	// FewOpenFiles limits the open files of a process. Without it the limit is four times
	// as high.
	FewOpenFiles = true
	// BoundedCPU limits the CPU share of a container. Without it the container can use all
	// CPUs.
	BoundedCPU = true
	// BoundedOutput limits what is kept of the agent's output. Without it the agent can
	// fill the host's disk.
	BoundedOutput = true
	// BoundedStderr limits what is kept of a server's stderr. Without it the server can
	// fill the host's disk.
	BoundedStderr = true
	// BoundedTrees limits what is collected of the workspace. Without it a sparse file can
	// fill the host's disk.
	BoundedTrees = true
)

// File trees left by agents, and graders' programs.
const (
	// LinksAsLinks collects a link as a link. Without it a file from outside the workspace
	// is collected as part of it.
	LinksAsLinks = true
	// LinksUnfollowed keeps graders from following links in the workspace. Without it they
	// read files of the host.
	LinksUnfollowed = true
	// ConfinedLinks keeps links out of the workspace from graders' programs. Without it a
	// program reads a file of its own in place of one that the agent should have left.
	ConfinedLinks = true
	// PlainRights removes setuid and setgid from files. Without it a grader's program can
	// start a program that runs as its owner.
	PlainRights = true
	// EveryName collects directories with any name. Without it an invalid name hides the
	// whole workspace.
	EveryName = true
	// RestoredRights collects directories that were closed to their owner. Without it the mode of a
	// directory hides the whole workspace.
	RestoredRights = true
	// ReadableRest collects all other files if one cannot be read. Without it one such file hides the
	// whole workspace.
	ReadableRest = true
	// BlamedLosses blames the agent if files that it left cannot be collected. Without it graders only
	// lack evidence, and a trial that would fail is an error.
	BlamedLosses = true
	// FewLevels limits the depth of collected directories. Without it the limit is eight
	// times as high.
	FewLevels = true
	// UnopenedPipes records a pipe without opening it. Without it a pipe without a writer
	// blocks the collection of the workspace.
	UnopenedPipes = true
	// ConfinedTrees unpacks a tree only into its directory. Without it names with .. or a
	// link lead out of it.
	ConfinedTrees = true
	// ExitCodesCount fails a grader's program that exits with a nonzero code. Without it a program can
	// pass by printing that it did.
	ExitCodesCount = true
	// NoPassOutOfMemory fails a program that ran out of memory. Without it the program
	// passes by exiting with 0 after the kernel killed the process that does the checks.
	NoPassOutOfMemory = true
	// FrozenWorkspace shows each grader's program the workspace as the agent left it.
	// Without it a program can change what the next one sees.
	FrozenWorkspace = true
)

// The record of MCP messages.
const (
	// RecordedFrames records messages. Without it a call leaves no trace.
	RecordedFrames = true
	// RecordedRequests records what an agent sends before it is forwarded. Without it a
	// call can be executed without being recorded.
	RecordedRequests = true
	// OneMeaning records a gap for an ambiguous message. Without it a server can execute a
	// call other than the one recorded.
	OneMeaning = true
	// FoldedKeys records a gap for a key that differs from a known key only in case.
	// Without it a server that ignores case can use that key.
	FoldedKeys = true
	// FewValues records a gap for a message with very many values. Without it such a
	// message exhausts the runner's memory.
	FewValues = true
	// TypedIDs distinguishes the id 1 from "1". Without it a response to one is taken for a
	// response to the other.
	TypedIDs = true
	// FirstAnswer keeps the first response to a request. Without it a second one replaces
	// it.
	FirstAnswer = true
	// OwnConversation matches responses only within their own conversation. Without it a
	// server can answer requests to another.
	OwnConversation = true
	// OwnAnswers keeps an agent's responses from answering its own calls. Without it a
	// server can make the agent answer them, with a request that has their id.
	OwnAnswers = true
	// Cancellation ignores late responses to cancelled requests. Without it they count.
	Cancellation = true
	// ComparedTools reports changes in lists of tools. Without it a server can change a
	// description unnoticed.
	ComparedTools = true
)

// The proxy in front of servers.
const (
	// HiddenTools rejects calls of tools hidden from the agent. Without it they are
	// executed.
	HiddenTools = true
	// HiddenInHeaders rejects calls that name hidden tools in headers. Without it a server
	// that uses the headers executes them.
	HiddenInHeaders = true
	// OneCharset rejects requests in a charset other than UTF-8. Without it a call can be
	// hidden in one.
	OneCharset = true
	// NoEncoding rejects compressed requests. Without it a call can be hidden in one.
	NoEncoding = true
	// CountedMessages ends a server that exceeds its message limits. Without it the server
	// can flood the runner.
	CountedMessages = true
	// ShortLines ends a server that sends a line that is too long. Without it the whole
	// line is read.
	ShortLines = true
	// Timeouts limits the time of each request. Without it a server can keep the agent
	// waiting.
	Timeouts = true
	// HeaderTimeout limits the time for a request's headers. Without it an agent can hold
	// connections by sending a byte per second.
	HeaderTimeout = true
	// OneOrigin keeps requests to a remote server at its origin. Without it the server can
	// redirect the runner elsewhere.
	OneOrigin = true
)

// Files that a user names.
const (
	// ConfinedCassettes reads only regular files of a cassette's directory, and follows no links.
	// Without it a cassette can play or show any file of the machine, or block its reader.
	ConfinedCassettes = true
	// BoundedCassettes limits the bytes read of a cassette. Without it one large file exhausts the
	// runner's memory.
	BoundedCassettes = true
	// BlobDigests compares a long answer of a cassette with the digest in its entry. Without it the
	// answer can be another one.
	BlobDigests = true
	// BoundedAliases limits the values of a YAML file with its aliases expanded. Without it a small
	// file exhausts the runner's memory.
	BoundedAliases = true
	// BoundedTemplates limits the text that a template produces. Without it a value in a cassette's
	// state can double with every request.
	BoundedTemplates = true
)

// Egress and secrets.
const (
	// EgressPolicy allows connections only to hosts that the eval allows. Without it all
	// are allowed.
	EgressPolicy = true
	// TunnelsAsNamed compares the name in a tunnel's ClientHello with the host of the
	// tunnel. Without it the tunnel can reach another host at the same address.
	TunnelsAsNamed = true
	// HostsAsConnected compares a request's Host with the host that was connected to.
	// Without it the request can name another.
	HostsAsConnected = true
	// NamedFiles lets only files named on the command line give away variables of the environment,
	// unless the user allows more. Without it a file that was discovered can do so too.
	NamedFiles = true
	// Offline keeps a command with --offline from fetching. Without it an eval can make it fetch
	// images, packages and repositories.
	Offline = true
	// KnownParts forwards requests for models only to the parts of an API for turns, counts of tokens
	// and lists of models. Without it an agent can use everything that the provider's key gives access
	// to.
	KnownParts = true
	// KnownHeaders forwards only known headers between agents and providers. Without it an agent can
	// change how a provider interprets its request, and a provider can name a header after its key.
	KnownHeaders = true
	// CountedAsking counts the claim of a request while it has no answer, and if its answer does not
	// report its usage. Without it an agent can exceed its limits unnoticed.
	CountedAsking = true
	// Redaction removes secrets from everything written. Without it they are stored on
	// disk.
	Redaction = true
	// OnlySpans identifies removed secrets only by recorded spans. Without it asterisks written by an
	// agent count too, and a check of a text that contains them cannot fail.
	OnlySpans = true
)

// Certificate ends a run before its first trial if one of its own attacks escapes the
// sandbox. Without it a weakened executable could run no trial at all.
const Certificate = true
