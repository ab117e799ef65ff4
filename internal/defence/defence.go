// Package defence names each defence as a constant that a test can turn off, to show that
// an attack then succeeds. Each is a constant that is true, so the compiler leaves out
// what would do without it, and no file, variable or argument switches anything. The tests
// of package attacks build weakened executables with another copy of this one file,
// through go build -overlay.
//
// The package has nothing else, and imports nothing.
package defence

// Containers and their networks.
const (
	// SeccompFilter puts every container under a seccomp filter. Without it programs may
	// send datagrams, choose an interface, and use system calls that no container needs.
	SeccompFilter = true
	// CheckedWalls refuses a container whose guest finds a wall missing. Without it the
	// container is used, and called isolated.
	CheckedWalls = true
	// NoHostAddress keeps the host from having an address on a task network. Without it
	// containers reach whatever listens on the host.
	NoHostAddress = true
	// NoIPv6 keeps IPv6 off task networks. Without it the host is reached by the address
	// of its link.
	NoIPv6 = true
	// NoNetworkForServers gives a server no network. Without it the agent reaches servers
	// past the runner, and they reach each other and the agent.
	NoNetworkForServers = true
	// NoNetworkForPrograms gives a grader's program no network. Without it the program
	// reaches the host.
	NoNetworkForPrograms = true
	// OneServerPort has the agent's guest listen on the port of the servers alone. Without it
	// another port answers the agent too.
	OneServerPort = true
	// NamesOfTrial resolves the names of the trial and no other. Without it a name of the
	// engine's resolves.
	NamesOfTrial = true
	// UnknownNamesRefused answers any other name with NXDOMAIN. Without it the answer says
	// that the name exists.
	UnknownNamesRefused = true
	// EmptyEnvironment keeps the runner's environment out of containers. Without it they
	// have the runner's secrets.
	EmptyEnvironment = true
	// Unprivileged has programs run as a user other than root, with no capability, and
	// with the kernel's settings masked. Without it they may do to the machine what root
	// of a container may.
	Unprivileged = true
	// ReadOnlyRoot makes the root of a container read-only. Without it programs change the
	// files of their image.
	ReadOnlyRoot = true
	// OwnFiles gives each container files that are inodes of its own. Without it the
	// executable of process 1 is one inode for all, and a lock on it tells something.
	OwnFiles = true
	// OwnUsers gives each container a user that no other has. Without it all are one user,
	// and one container uses up what the kernel gives to a user.
	OwnUsers = true
	// SmallTCPBuffers bounds the buffers of TCP connections. Without it a container holds
	// many times its memory in them.
	SmallTCPBuffers = true
	// NothingOfTheHost keeps the host's files and devices out of containers. Without it
	// they have the control groups, a device and the engine's socket.
	NothingOfTheHost = true
)

// Process 1 of a container, and the end of containers.
const (
	// Undumpable keeps other processes from reading or tracing process 1. Without it they
	// read its memory and take over its descriptors.
	Undumpable = true
	// SignalsTakenIn has process 1 survive signals. Without it any process ends it.
	SignalsTakenIn = true
	// SoleProgram ends every process of the agent's container with the agent. Without it
	// they change the workspace before graders see it.
	SoleProgram = true
	// KilledAgents sends SIGKILL to an agent that ignores SIGTERM. Without it the agent
	// goes on when its time is over.
	KilledAgents = true
	// EndingContainers ends a container with the runner's end of its stdin, and by force
	// where it does not end. Without it containers outlive their trial and the runner.
	EndingContainers = true
	// MuxGuard holds what a guest sends against limits before yamux reads it. Without it a
	// guest that was taken over floods the runner.
	MuxGuard = true
	// FewConnections bounds how many connections an agent has at once. Without it one
	// agent holds hundreds.
	FewConnections = true
)

// Limits of containers, and of what is kept of them.
const (
	// SizedDirectories bounds the bytes in a writable directory. Without it the directory
	// takes twice as many.
	SizedDirectories = true
	// FewFiles bounds the files in a writable directory. Without it there may be 16 times
	// as many.
	FewFiles = true
	// SizedSharedMemory bounds /dev/shm. Without it /dev/shm takes eight times as much.
	SizedSharedMemory = true
	// FewProcesses bounds the processes of a container. Without it there may be four times
	// as many.
	FewProcesses = true
	// BoundedMemory bounds the memory of a container. Without it the container has four
	// times as much.
	BoundedMemory = true
	// FewOpenFiles bounds the open files of a process. Without it there may be four times
	// as many.
	FewOpenFiles = true
	// BoundedCPU bounds a container's share of the processors. Without it the container
	// takes them all.
	BoundedCPU = true
	// BoundedOutput bounds what is kept of the agent's output. Without it the agent fills
	// the host's disk.
	BoundedOutput = true
	// BoundedStderr bounds what is kept of a server's stderr. Without it the server fills
	// the host's disk.
	BoundedStderr = true
	// BoundedTrees bounds what is collected of the workspace. Without it a file of holes
	// fills the host's disk.
	BoundedTrees = true
)

// Trees of files that an agent left, and graders' programs.
const (
	// LinksAsLinks collects a link as a link. Without it a file from outside of the
	// workspace is collected as one that is in it.
	LinksAsLinks = true
	// LinksUnfollowed keeps graders from following links of the workspace. Without it they
	// read files of the host.
	LinksUnfollowed = true
	// PlainRights puts files without setuid and setgid. Without it a grader's program
	// starts what runs as its owner.
	PlainRights = true
	// EveryName collects directories of any name. Without it an odd name hides the whole
	// workspace.
	EveryName = true
	// FewLevels bounds how deep directories are collected. Without it eight times as many
	// levels are.
	FewLevels = true
	// UnopenedPipes tells of a pipe without opening it. Without it a pipe that nobody
	// writes to holds up whoever collects the workspace.
	UnopenedPipes = true
	// ConfinedTrees puts a tree into its directory and nowhere else. Without it names with
	// .. or a link in them lead out.
	ConfinedTrees = true
	// ExitCodesCount fails a grader's program by its exit code. Without it a program
	// passes that says so.
	ExitCodesCount = true
	// NoPassOutOfMemory fails a program that ran out of memory. Without it the program
	// passes by exiting with 0 where the kernel ended what should have checked.
	NoPassOutOfMemory = true
	// FrozenWorkspace shows each grader's program the workspace as the agent left it.
	// Without it a program changes what the next one sees.
	FrozenWorkspace = true
)

// The record of what servers and agents say to each other.
const (
	// RecordedFrames writes messages into the record. Without it a call leaves no trace.
	RecordedFrames = true
	// RecordedRequests records what an agent sends before it goes on. Without it a call is
	// carried out that is not on record.
	RecordedRequests = true
	// OneMeaning notes a gap where a message can be read in two ways. Without it a server
	// carries out another call than the one on record.
	OneMeaning = true
	// FoldedKeys notes a gap where a key may be taken for another. Without it a server
	// that ignores case does.
	FoldedKeys = true
	// FewValues notes a gap for a message of very many values. Without it such a message
	// takes the runner's memory.
	FewValues = true
	// TypedIDs keeps the id 1 apart from "1". Without it an answer to one passes for an
	// answer to the other.
	TypedIDs = true
	// FirstAnswer keeps the first answer to a request. Without it a second one takes its
	// place.
	FirstAnswer = true
	// OwnConversation takes an answer in its own conversation alone. Without it a server
	// answers what another one was asked.
	OwnConversation = true
	// OwnAnswers keeps an agent's answers from answering its own calls. Without it a
	// server has the agent answer them, by a question with their id.
	OwnAnswers = true
	// Cancellation keeps what was cancelled so. Without it a late answer counts.
	Cancellation = true
	// ComparedTools tells where a list of tools has changed. Without it a server changes a
	// description unseen.
	ComparedTools = true
)

// The proxy before servers.
const (
	// HiddenTools refuses calls of tools that the agent is not to have. Without it they
	// are carried out.
	HiddenTools = true
	// HiddenInHeaders refuses calls of such tools by headers. Without it a server that
	// goes by headers carries them out.
	HiddenInHeaders = true
	// OneCharset refuses requests in another charset than UTF-8. Without it a call is
	// hidden in one.
	OneCharset = true
	// NoEncoding refuses compressed requests. Without it a call is hidden in one.
	NoEncoding = true
	// CountedMessages ends a server that sends more than it may. Without it the server
	// floods the runner.
	CountedMessages = true
	// ShortLines ends a server for a line that is too long. Without it the server is heard
	// to the end of the line.
	ShortLines = true
	// Timeouts gives each request its time. Without it a server keeps the agent waiting.
	Timeouts = true
	// HeaderTimeout gives the headers of a request their time. Without it an agent holds
	// connections by a byte a second.
	HeaderTimeout = true
	// OneOrigin keeps requests to a remote server at its origin. Without it the server
	// leads the runner elsewhere.
	OneOrigin = true
)

// What leaves: egress and secrets.
const (
	// EgressPolicy lets nothing leave for a host that the eval does not allow. Without it
	// everything that asks leaves.
	EgressPolicy = true
	// TunnelsAsNamed holds the name in a tunnel's ClientHello against the host that the
	// tunnel is to. Without it the tunnel leads to another host of the same address.
	TunnelsAsNamed = true
	// HostsAsConnected holds a request's Host against the host that was connected to.
	// Without it the request names another.
	HostsAsConnected = true
	// Redaction takes secrets out of all that is written. Without it they are on disk.
	Redaction = true
)

// What is shown of a run.
const (
	// InertText takes out of a text what a terminal or a CI system obeys. Without it a
	// server controls both.
	InertText = true
	// IndentedText sets in a stranger's lines. Without it one of them passes for a line of
	// waza's.
	IndentedText = true
	// ClippedText shows the beginning of a text on a terminal. Without it a text floods
	// the terminal.
	ClippedText = true
	// VisibleText writes out characters that are not seen. Without it they change the
	// order of others.
	VisibleText = true
	// EscapedPages escapes texts in pages. Without it a text is HTML.
	EscapedPages = true
	// PagePolicy gives pages a Content-Security-Policy. Without it a browser runs any
	// script.
	PagePolicy = true
	// BoundedPages bounds what a page shows of a trial. Without it no browser opens the
	// page.
	BoundedPages = true
	// EscapedXML escapes texts in JUnit files. Without it a text is XML.
	EscapedXML = true
	// EscapedMarkdown escapes texts in comments on pull requests. Without it a text is
	// Markdown.
	EscapedMarkdown = true
	// FilesAsText serves files of a run as text. Without it a browser takes them for
	// pages.
	FilesAsText = true
)

// Certificate has a run end before its first trial where an attack of its own gets out
// of the sandbox. Without it a weakened executable could run no trial at all.
const Certificate = true
