// Package hint suggests how to fix a server that did not start, or a build that failed, based
// on what was printed.
package hint

import (
	"regexp"
	"slices"
	"strings"
)

// hint is a suggestion for a server that did not start, or a build that failed.
type hint struct {
	on    *regexp.Regexp // matches the output of programs
	text  string         // SERVER stands for the server's name, $1 for the first matched group, and $VARIABLES for the variables in the matched line
	where where
	weak  bool // not used if the sandbox has a hint of its own
}

// where is where a hint applies.
type where int

const (
	anywhere where = iota
	contained
	local
	building // in builds, not in sandboxes
)

// Matches the name of an environment variable.
const variable = `\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b`

var variables = re(variable)

// maxVariables is how many variables a hint names.
const maxVariables = 4

// Matches what shells, env, Go, Node and Python print about a missing program.
const missingProgram = `spawn(?:Sync)? ([\w./+-]+) ENOENT|(?m:^(?:\S*sh: )?(?:\d+: |line \d+: )?([\w.+-]+): (?:command )?not found$)|exec: "([\w./+-]+)": (?:executable file not found|no such program)|env: .?([\w.+-]+?).?: No such file|No such file or directory: '([\w.+-]+)'`

// otherBase is the advice for a base image that lacks a program.
const otherBase = ": build on one that has it, by a Dockerfile, or for packages by config.isolation.npm_image or pypi_image"

// denied matches the output of programs that lack a permission.
var denied = re(`(?i)read-only file system|permission denied|operation not permitted|must be run as root|not writable|\bE(?:ROFS|ACCES|PERM)\b`)

// IfDenied returns special, a sandbox's hint on the user and the files of a container, if said, the
// output of a program there, shows that it lacked a permission.
func IfDenied(said, special string) string {
	if !denied.MatchString(said) {
		return ""
	}
	return special
}

// hints are tried in order; the first one that matches is used.
var hints = []hint{
	{re(`\bmcp-remote\b`), "mcp-remote only forwards to a remote server: give SERVER that server's url and headers instead of a command", anywhere, false},
	{re(`ECONNREFUSED (?:127\.0\.0\.1|::1|localhost)(?::(\d+))?|connect(?:ion)? to (?:localhost|127\.0\.0\.1)\S* .*(?:refused|failed)`), "SERVER connects to its own machine, where nothing listens: run what it needs as one of its services", contained, false},
	{re(`(?i)no usable sandbox|sandboxing failed|\bs(?:et)?uid sandbox|\bbwrap: |CLONE_NEW(?:USER|NS|PID|NET)|move to new namespace|user ?namespace|\bunshare\b[^\n]*(?:not permitted|failed)`), "SERVER makes a sandbox of its own, in new namespaces or as root, and no program here can: turn that off, in a browser with --no-sandbox; its container is its sandbox", contained, false},
	{re(`(?i)seccomp|system call filter`), "SERVER filters its own system calls, which programs here cannot: set nested_sandboxes: true, or turn its sandbox off", contained, false},
	{re(`docker\.sock|Docker daemon|DOCKER_HOST`), "SERVER needs a Docker daemon, which no sandbox has: it cannot be run with --isolate", contained, false},
	{re(`(?i)kubeconfig|KUBERNETES_|current-context|no configuration has been provided`), "SERVER needs a cluster: give it a kubeconfig with files, and reach the cluster with --egress SERVER=HOST:PORT", contained, false},
	{re(`(?:getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|(?i:could not resolve host):|(?i:failed to resolve) ['"]?|lookup|host=['"]) ?([a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+)`), "SERVER has no network in its sandbox: allow this host with --egress SERVER=$1, or with egress in its configuration", contained, false},
	{re(`ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|(?i:fetch failed|network is unreachable|name or service not known|temporary failure in name resolution|no such host|name resolution|UND_ERR_CONNECT|connect(?:ion)? (?:error|timed? ?out))`), "SERVER has no network in its sandbox: allow the hosts that it needs with --egress SERVER=HOST, or with egress in its configuration", contained, false},
	{re(`(?i)valid ICU package|libicu`), "SERVER needs the library libicu, which its image lacks: set image to one that has it, or build one", contained, false},
	{re(`(?i)(?:could not|unable to|cannot) find (?:a |any |the )?(?:chrom|browser)|chromium? (?:distribution|executable|browser)|Executable doesn't exist at|launch the browser|no browser|playwright install|PUPPETEER_`), "SERVER needs a browser, which its image lacks: set image to one that has it, or build one", contained, false},
	{re(`(?:error while loading shared libraries: |Error loading shared library )([\w.+-]+)`), "the program of SERVER needs the library $1, which its image lacks: set image to one that has it, or build one", contained, false},
	{re(`version .?(GLIBC_[\d.]+).? not found`), "the program of SERVER needs $1, and its image is older: set image to a newer one", contained, false},
	{re(`(?i)invalid ELF header|exec format error|cannot execute binary file`), "the program of SERVER is built for another kind of machine than its image: install it inside the image, or set platform", contained, false},
	{re(`(?i)could not locate the bindings file|compiled against a different Node|\.node['"]?(?::|$)|cannot open shared object file`), "SERVER has a native module that is not built for its image: build an image in which it is, and set image", contained, false},
	{re(`(?:Cannot find (?:module|package)|No module named) ['"]([^'"\s]+)['"]`), "SERVER does not find $1: check its command and args, or install it in its image", contained, false},
	{re(`(?i)(?:requires|required|needs|unsupported|minimum).{0,40}\b(node(?:\.js)?|python) ?(?:version|v?\d)|\b(?:node(?:\.js)?|python) (?:version )?v?[\d.]+ (?:or (?:higher|later|newer)|is (?:not supported|required))`), "SERVER needs another version of what runs it: set image, or config.isolation.npm_image or uv_image, to one that has it", contained, false},
	{re(`\bexec: (/\S+): no such file or directory`), "SERVER's image has no $1, or lacks the interpreter or loader that it needs: correct command, or the image", contained, false},
	{re(missingProgram), "SERVER runs the program $1, which its image lacks: set image to one that has it, or build one", contained, false},
	{re(missingProgram), "SERVER runs the program $1, which is not installed on this machine: install it, or run with --isolate and an image that has it", local, false},
	{re(`(?i)\b(git|kubectl|docker|python3?|ffmpeg|java|psql|terraform|helm|uvx?|npx?|node|go|cargo|chrome)\b.{0,30}(?:is not installed|not installed|not found in (?:your )?path|is not in (?:your )?path|executable not found)|bad (git) executable`), "SERVER runs the program $1, which its image lacks: set image to one that has it, or build one", contained, false},
	{re(`(?i)javascript heap out of memory|MemoryError|out of memory|ENOMEM`), "SERVER ran out of memory: set a larger memory", anywhere, false},
	{re(`(?i)no space left on device|ENOSPC`), "SERVER wrote more than its sandbox takes: set a larger disk", contained, false},
	{re(`(?:EROFS: read-only file system|EACCES: permission denied), \w+ '([^'\n]+)'|(?i:read-only file system|permission denied): '([^'\n]+)'|'([^'\n]+)': (?:Read-only file system|Permission denied)|\w+ (/\S+): (?:read-only file system|permission denied)`), "SERVER may not write $1: name a directory for it under writable", contained, true},
	{denied, "SERVER does what its user may not: set user to the one that its image is made for, and writable to the directories that it writes to", contained, true},
	{re(variable + `[^\n]{0,80}(?i:require|must|not set|not found|missing|undefined|not provided|not configured|not defined|empty|unset|needed)`), "SERVER asks for $VARIABLES: set those that it needs with env or secrets, or --env of waza init", anywhere, false},
	{re(`KeyError: ['"]` + variable), "SERVER asks for $VARIABLES: set those that it needs with env or secrets, or --env of waza init", anywhere, false},
	{re(`(?i:missing|pass|provide|set|require[sd]?|specify|define|need|export|no|without|find)\b[^\n]{0,80}?` + variable), "SERVER asks for $VARIABLES: set those that it needs with env or secrets, or --env of waza init", anywhere, false},
	{re(`(?i)(?:api[ _-]?key|token|credentials?|password|secret)s?\b[^\n]{0,60}(?:require|must|missing|not (?:set|provided|found|configured|given)|invalid|needed)|(?:missing|no|provide|requires?|specify|need|without|invalid)\b[^\n]{0,60}(?:api[ _-]?key|token|credentials?|password)|\b(?:401|unauthori[sz]ed)\b`), "SERVER needs a credential: give it one with secrets, under the name in its documentation", anywhere, false},
	{re(`(?i)(?:open|visit|go to)\b[^\n]{0,60}https?://|\boauth\b|log ?in (?:with|to|in) `), "SERVER waits for a login in a browser, which is not possible here: give it a token with secrets", anywhere, false},
	{re(`(?i)(?:listening|running|started|serving|available|ready)\b[^\n]{0,80}?(?::|port:? )(\d{2,5})\b`), "SERVER serves HTTP on port $1: set type: http and port: $1, or give it the arguments by which it speaks on stdin and stdout", anywhere, false},
	{re(`ENOENT: no such file or directory, \w+ '([^'\n]+)'|No such file or directory: '(/[^'\n]+)'|open (/\S+): no such file|can't open file '([^'\n]+)': \[Errno 2\]|(?i:directory|path|file)\b[^\n]{0,20}?['" ](/[\w./-]+)['"]?[^\n]{0,10}(?i:not exist|not found|not accessible|is not a|cannot be)|access(?:ing)? (?:directory )?['"]?(/[\w./-]+)`), "SERVER does not find $1: copy it in with files, or name another path in args", contained, false},
	{re(`(?i)config(?:uration)?(?: ?file)?\b[^\n]{0,60}(?:not found|missing|not exist|required|no such|cannot be read)|(?:missing|no|provide|specify|requires?)\b[^\n]{0,40}config(?:uration)?\b`), "SERVER needs a configuration file: copy it in with files, and name it in args or env as its documentation says", anywhere, false},
	{re(`(?im)^\s*usage:|command[- ]line argument|required (?:argument|option|flag)|missing (?:required )?(?:argument|option|flag)|unknown (?:option|argument|command|flag)|arguments are required`), "SERVER wants other arguments: correct args", anywhere, false},
	{re(`its stdout, which is for MCP messages alone:\s*[{\[]`), "SERVER prints JSON to stdout that is not an MCP message: check that command and args start an MCP server", anywhere, false},
	{re(`its stdout, which is for MCP messages alone`), "SERVER prints to stdout: have it print to stderr instead, or, if it serves HTTP, set type: http and port", anywhere, false},
	{re(`code 0 before it answered$`), "a server on stdin and stdout must run until its stdin is closed: check command and args", anywhere, false},
	{re(`ended by SIG(?:SEGV|BUS|ILL|FPE|ABRT|TRAP) before it answered$`), "SERVER crashed: try another version of it, or another image", anywhere, true},
	{re(`before it answered$`), "SERVER printed nothing: check command and args", anywhere, true},
	{re(`did not answer in time: startup_timeout is \S+$`), "SERVER printed nothing: if it serves HTTP, set type: http and port; if it starts slowly, raise startup_timeout", anywhere, true},
	{re(`gyp ERR! find Python|Could not find any Python|not found: make|\b(?:make|gcc|g\+\+|cc|c\+\+): (?:command )?not found|["'](?:make|gcc|g\+\+|cc|c\+\+)["']: executable file not found|command '[\w-]*(?:gcc|g\+\+|cc|clang)' failed|[Nn]o (?:acceptable )?C compiler`), "the build compiles, and its base image lacks a compiler, make or Python" + otherBase, building, false},
	{re(`\bpython3?: (?:command )?not found`), "the build needs Python, which its base image lacks" + otherBase, building, false},
	{re(`\bgit: (?:command )?not found|spawn git ENOENT|["']git["']: executable file not found|[Cc]annot find command 'git'`), "the build needs git, which its base image lacks" + otherBase, building, false},
	{re(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|Could not resolve|Temporary failure (?:in name resolution|resolving)|Name or service not known|no such host|Failed to resolve|[Nn]etwork is unreachable|[Cc]onnection refused`), "the build does not reach a host: see that the engine's builds reach the network, or set HTTPS_PROXY", building, false},
	{re(`SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT|unable to get local issuer certificate|CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority`), "the build does not trust the certificates of this network: have the Dockerfile copy its certificate authority; builds without a Dockerfile get what NODE_EXTRA_CA_CERTS, SSL_CERT_FILE and PIP_CERT name here", building, false},
}

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// OnServer returns the hint for a server given its output, including its command and error, or
// "". special is the sandbox's own hint on the container, for [IfDenied].
func OnServer(name, said, special string, isContained bool) string {
	special = IfDenied(said, special)
	for _, h := range hints {
		if h.where == building || h.where == contained && !isContained || h.where == local && isContained || h.weak && special != "" {
			continue
		}
		at := h.on.FindStringSubmatchIndex(said)
		if at == nil {
			continue
		}
		what := ""
		for i := 2; i < len(at) && what == ""; i += 2 {
			if at[i] >= 0 {
				what = said[at[i]:at[i+1]]
			}
		}
		return strings.NewReplacer("SERVER", name, "$1", what, askVariables, strings.Join(variablesAt(said, at), ", ")).Replace(h.text)
	}
	return special
}

// Variables returns the names of the variables that a server asks for in its output, or nil.
func Variables(said string) []string {
	for _, h := range hints {
		if at := h.on.FindStringIndex(said); at != nil && strings.Contains(h.text, askVariables) {
			return variablesAt(said, at)
		}
	}
	return nil
}

// askVariables stands in a hint for the variables that a server asks for.
const askVariables = "$VARIABLES"

// variablesAt returns the variables in the lines of said that a match spans.
func variablesAt(said string, at []int) []string {
	begin, end := strings.LastIndexByte(said[:at[0]], '\n')+1, len(said)
	if i := strings.IndexByte(said[at[1]:], '\n'); i >= 0 {
		end = at[1] + i
	}
	named := variables.FindAllString(said[begin:end], maxVariables)
	slices.Sort(named)
	return slices.Compact(named)
}

// OnBuild returns the hint for a line of output of a failed build, or "".
func OnBuild(line string) string {
	i := slices.IndexFunc(hints, func(h hint) bool { return h.where == building && h.on.MatchString(line) })
	if i < 0 {
		return ""
	}
	return hints[i].text
}

// Add returns err with a hint appended, if there is one. Programs' output in err cannot imitate
// one.
func Add(err error, hint string) error {
	if hint == "" {
		return err
	}
	return &hintedError{err, hint}
}

type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string {
	return strings.ReplaceAll(e.err.Error(), "\nhint: ", "\n hint: ") + "\nhint: " + e.hint
}

func (e *hintedError) Unwrap() error { return e.err }
