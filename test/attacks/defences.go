package attacks

import "github.com/waza-isolate/waza/sandbox/probe"

// Networks, names and container isolation.

var (
	checkedWalls      = probe.Without(probe.OpenBuild, "each container is checked for its walls", "CheckedWalls")
	unknownNames      = probe.Without(probe.OpenBuild, "NXDOMAIN for every other name", "UnknownNamesRefused")
	serversStandAlone = probe.Without(probe.OpenBuild, "no network for servers", "NoNetworkForServers", "CheckedWalls")
	oneServerPort     = probe.Without(probe.OpenBuild, "one port for all servers", "OneServerPort")
	graderAlone       = probe.Without(probe.OpenBuild, "no network for graders' programs", "NoNetworkForPrograms", "NoHostAddress", "CheckedWalls")
	noCoreDumps       = probe.Without(probe.RootBuild, "programs cannot change their limit of core dumps", "NoCoreDumps")
	hiddenNames       = probe.Without(probe.RootBuild, "names of the host are hidden", "HiddenNames", "Unprivileged")
)

// Process 1, and the end of containers.

var (
	// undumpableAndFilter is a pair of defenses against what the filter alone would stop too.
	undumpableAndFilter = probe.Without(probe.GuestBuild, "the seccomp filter, and process 1 that cannot be dumped", "Undumpable", "SeccompFilter", "CheckedWalls")
	soleProgram         = probe.Without(probe.GuestBuild, "nothing outlives the agent in its container", "SoleProgram")
	killing             = probe.Without(probe.GuestBuild, "SIGKILL after SIGTERM", "KilledAgents")
	ending              = probe.Without(probe.GuestBuild, "containers end when the runner closes their stdin", "EndingContainers")
	guarded             = probe.Without(probe.WireBuild, "a guard before the mux", "MuxGuard")
)

// Limits.

var (
	fewConnections   = probe.Without(probe.WireBuild, "a limit of connections of the agent", "FewConnections")
	sizedDirectories = probe.Without(probe.LaxBuild, "a size limit of writable directories", "SizedDirectories")
	fewFiles         = probe.Without(probe.LaxBuild, "a limit of files", "FewFiles")
	sharedMemory     = probe.Without(probe.LaxBuild, "a size limit of /dev/shm", "SizedSharedMemory")
	someProcesses    = probe.Without(probe.LaxBuild, "a limit of processes", "FewProcesses")
	someMemory       = probe.Without(probe.LaxBuild, "a limit of memory", "BoundedMemory")
	someFiles        = probe.Without(probe.LaxBuild, "a limit of open files", "FewOpenFiles")
	someCPU          = probe.Without(probe.LaxBuild, "a limit of processors", "BoundedCPU")
	someOutput       = probe.Without(probe.LaxBuild, "a limit of the agent's output", "BoundedOutput")
	someStderr       = probe.Without(probe.LaxBuild, "a limit of servers' stderr", "BoundedStderr")
	boundedTree      = probe.Without(probe.LaxBuild, "a limit of what is collected", "BoundedTrees")
)

// File trees and graders' programs.

var (
	linksUnfollowed   = probe.Without(probe.LaxBuild, "graders do not follow symlinks in the workspace", "LinksUnfollowed")
	linksAsLinks      = probe.Without(probe.LaxBuild, "symlinks are collected as symlinks", "LinksAsLinks")
	confinedLinks     = probe.Without(probe.LaxBuild, "graders' programs get no links out of the workspace", "ConfinedLinks")
	rightsDropped     = probe.Without(probe.LaxBuild, "setuid bits are dropped when files are copied", "PlainRights")
	everyDirectory    = probe.Without(probe.LaxBuild, "directories may have any name", "EveryName")
	rightsRestored    = probe.Without(probe.LaxBuild, "closed directories are opened to collect them", "RestoredRights")
	restRead          = probe.Without(probe.GuestBuild, "what cannot be read hides nothing else", "ReadableRest")
	lossesBlamed      = probe.Without(probe.LaxBuild, "evidence that the agent spoilt is its fault", "BlamedLosses")
	fewLevels         = probe.Without(probe.LaxBuild, "a limit of nested directories", "FewLevels")
	pipesUnopened     = probe.Without(probe.LaxBuild, "pipes are listed, not opened", "UnopenedPipes")
	confinedTar       = probe.Without(probe.WireBuild, "extraction that cannot leave its directory", "ConfinedTrees")
	exitCodeCounts    = probe.Without(probe.LaxBuild, "the exit code of graders' programs", "ExitCodesCount")
	noPassOutOfMemory = probe.Without(probe.LaxBuild, "a program that ran out of memory does not pass", "NoPassOutOfMemory")
	frozenWorkspace   = probe.Without(probe.LaxBuild, "each program gets the workspace as it was collected", "FrozenWorkspace")
)

// Egress and secrets.

var (
	egressPolicy   = probe.Without(probe.LeakyBuild, "the egress policy", "EgressPolicy")
	tunnelsAsNamed = probe.Without(probe.LeakyBuild, "the SNI must name the host of the tunnel", "TunnelsAsNamed")
	// hostsAsConnected is a pair of defenses, one behind the other.
	hostsAsConnected = probe.Without(probe.LeakyBuild, "the Host header must name the connected host, and the egress policy", "HostsAsConnected", "EgressPolicy")
	namedFiles       = probe.Without(probe.LeakyBuild, "files that the command line does not name are asked about", "NamedFiles")
	offline          = probe.Without(probe.LeakyBuild, "what is about to fetch asks whether it may", "Offline")
	onlySpans        = probe.Without(probe.LeakyBuild, "only recorded spans tell where a secret was removed", "OnlySpans")
	redaction        = probe.Without(probe.LeakyBuild, "secrets are redacted from everything written", "Redaction")
)

// Cassettes.

var (
	confinedCassettes = probe.Without(probe.LeakyBuild, "only regular files of a cassette are read, through no link", "ConfinedCassettes")
	confinedDigests   = probe.Without(probe.LeakyBuild, "only regular files of a cassette are read, through no link, and blobs have the digest that is their name", "ConfinedCassettes", "BlobDigests")
	blobDigests       = probe.Without(probe.LeakyBuild, "blobs have the digest that is their name", "BlobDigests")
	boundedCassettes  = probe.Without(probe.LeakyBuild, "a limit of bytes of a cassette", "BoundedCassettes")
	boundedAliases    = probe.Without(probe.LeakyBuild, "a limit of values of a YAML file with its aliases written out", "BoundedAliases")
	boundedTemplates  = probe.Without(probe.LeakyBuild, "a limit of what a template gives", "BoundedTemplates")
	fewLevelsOfYAML   = probe.Kept("a limit of levels of a YAML file", "the parser, the reader and package jsontext each have one; tests of internal/strictyaml show theirs")
	noWaitForItself   = probe.Kept("an entry that waits for itself is refused", "without that it would just never be given")
	linearExpressions = probe.Kept("expressions by Go's regexp", "they are matched in time linear in the text, so there is no code to disable")
)

// Messages.

var (
	recording          = probe.Without(probe.GuestBuild, "all frames are recorded", "RecordedFrames")
	recorded           = probe.Without(probe.LeakyBuild, "messages of the agent are recorded before they are forwarded", "RecordedRequests")
	oneMeaning         = probe.Without(probe.WireBuild, "a gap for every message that can be read in two ways", "OneMeaning")
	foldedKeys         = probe.Without(probe.WireBuild, "a gap for every key that can be mistaken for another", "FoldedKeys")
	fewValues          = probe.Without(probe.WireBuild, "a limit of values in a message", "FewValues")
	filtered           = probe.Without(probe.WireBuild, "calls of hidden tools are refused", "HiddenTools")
	filteredHeaders    = probe.Without(probe.WireBuild, "calls of hidden tools by headers are refused", "HiddenInHeaders")
	oneCharset         = probe.Without(probe.WireBuild, "requests are UTF-8", "OneCharset")
	noEncoding         = probe.Without(probe.WireBuild, "requests are not compressed", "NoEncoding")
	goHTTP             = probe.Kept("requests are parsed by Go's net/http and written anew", "waza does not parse headers or chunks itself; what net/http refuses reaches no server")
	noModel            = probe.Kept("model requests only go to paths below the provider's URL", "tests of model/gateway try these paths and more; this suite has only servers")
	countedFrames      = probe.Without(probe.WireBuild, "limits on what a server sends", "CountedMessages")
	shortLines         = probe.Without(probe.WireBuild, "a server is stopped for a line that is too long", "ShortLines")
	typedIDs           = probe.Without(probe.WireBuild, "ids of different types are different ids", "TypedIDs")
	firstAnswer        = probe.Without(probe.WireBuild, "the first answer counts", "FirstAnswer")
	conversationsApart = probe.Without(probe.WireBuild, "a response only answers its own session", "OwnConversation")
	inOrder            = probe.Kept("a response only answers an earlier request", "there is no code to disable: frames are read in order, and a response without a request is not kept")
	agentsAnswers      = probe.Without(probe.WireBuild, "the agent's responses do not answer its own requests", "OwnAnswers")
	cancelled          = probe.Without(probe.WireBuild, "a cancelled request stays cancelled", "Cancellation")
	timed              = probe.Without(probe.WireBuild, "a time limit for requests", "Timeouts")
	compared           = probe.Without(probe.WireBuild, "tool lists are compared", "ComparedTools")
	oneOrigin          = probe.Without(probe.WireBuild, "requests to a remote server stay on its origin", "OneOrigin")
	boundedMemory      = probe.Kept("a limit of bytes in messages held in memory", "without the limit, the amount depends on the load of the machine; tests of mcp/proxy have responses that nobody reads")
	headersInTime      = probe.Without(probe.WireBuild, "a time limit for request headers", "HeaderTimeout")
)

// Text that is shown.

var (
	plainText        = probe.Kept("control characters are escaped", "tests of internal/text show what is left of each character")
	setIn            = probe.Kept("foreign lines are indented", "golden files of cmd/waza have what waza show prints")
	clippedTexts     = probe.Kept("long texts are cut on terminals", "golden files of cmd/waza have what waza show prints of long texts")
	visibleText      = probe.Kept("invisible characters are escaped", "tests of internal/text show how each invisible character is written")
	plainOutput      = probe.Kept("all output of a command passes one writer", "tests of internal/text show what passes the writer")
	escapedPages     = probe.Kept("pages by html/template", "tests of report and test/pages write and open pages with hostile texts")
	policyAndEscapes = probe.Kept("a Content-Security-Policy, behind pages by html/template", "either alone keeps scripts from running, as tests of report and test/pages show")
	noAddresses      = probe.Kept("no foreign text in URLs", "no page builds a URL from foreign text, so there is no code to disable")
	noAttributes     = probe.Kept("no foreign text in attributes", "no page puts foreign text into an attribute, where html/template would quote it")
	boundedPages     = probe.Kept("limits on what a page shows of a trial", "tests of report show how large the page of a trial can be")
	escapedXML       = probe.Kept("JUnit files by encoding/xml", "tests of report/junit read what is written with hostile texts")
	escapedMarkdown  = probe.Kept("everything that Markdown, HTML or GitHub interprets is escaped", "tests of report/github show what hostile texts become")
	servedAsText     = probe.Kept("files are served only as plain text", "tests of serve show the type that each file is served as")
)

// The gateway to models.

var (
	knownParts    = probe.Without(probe.LeakyBuild, "only models' turns, counts of tokens and lists of models are passed on to a provider", "KnownParts")
	knownHeaders  = probe.Without(probe.LeakyBuild, "only known headers and parameters pass between agent and provider", "KnownHeaders")
	countedAsking = probe.Without(probe.LeakyBuild, "what a request asks for counts until its answer says what it took", "CountedAsking")
)
