package hint

import (
	"errors"
	"strings"
	"testing"
)

const ownSandbox = "s makes a sandbox of its own, in new namespaces or as root, and no program here can: turn that off, in a browser with --no-sandbox; its container is its sandbox"

// TestHints has what real programs printed, and what is to be said of it.
func TestHints(t *testing.T) {
	const special = "its image is special"
	for _, test := range []struct {
		printed, contained, local string // an empty hint stands for the sandbox's own, if it has one
	}{
		{"Error: BRAVE_API_KEY environment variable is required", "s asks for BRAVE_API_KEY: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables", "s asks for SLACK_BOT_TOKEN, SLACK_TEAM_ID: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"KeyError: 'SHOP_TOKEN'", "s asks for SHOP_TOKEN: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"KeyError: 'OPENWEATHER_API_KEY' missing", "s asks for OPENWEATHER_API_KEY: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"Either FIGMA_API_KEY or FIGMA_OAUTH_TOKEN is required (via CLI argument or .env file)", "s asks for FIGMA_API_KEY, FIGMA_OAUTH_TOKEN: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"Error: No access token was provided.\nRun `sentry-mcp auth login` interactively first, or pass `--access-token` / `SENTRY_ACCESS_TOKEN`.\nUsage: @sentry/mcp-server [--access-token=<token>]", "s asks for SENTRY_ACCESS_TOKEN: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"The --tools flag has been removed.\nError: Please either pass it as an argument --api-key=$KEY or set the STRIPE_SECRET_KEY environment variable.", "s asks for STRIPE_SECRET_KEY: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"Error: No API key provided", "s needs a credential: give it one with secrets, under the name in its documentation", "same"},
		{"answered with an error: -32603 no token", "s needs a credential: give it one with secrets, under the name in its documentation", "same"},
		{"Error: getaddrinfo ENOTFOUND api.stripe.com\n    at GetAddrInfoReqWrap.onlookupall [as oncomplete] (node:dns:122:26)", "s has no network in its sandbox: allow this host with --egress s=api.stripe.com, or with egress in its configuration", ""},
		{"TypeError: fetch failed", "s has no network in its sandbox: allow the hosts that it needs with --egress s=HOST, or with egress in its configuration", ""},
		{"fatal: unable to access 'https://x/': Could not resolve host: github.com", "s has no network in its sandbox: allow this host with --egress s=github.com, or with egress in its configuration", ""},
		{"dial tcp: lookup api.github.com on 127.0.0.11:53: no such host", "s has no network in its sandbox: allow this host with --egress s=api.github.com, or with egress in its configuration", ""},
		{"urllib3.exceptions.NameResolutionError: <...>: Failed to resolve 'pypi.org' ([Errno -3] Temporary failure in name resolution)", "s has no network in its sandbox: allow this host with --egress s=pypi.org, or with egress in its configuration", ""},
		{"Error: connect ECONNREFUSED 127.0.0.1:5432", "s connects to its own machine, where nothing listens: run what it needs as one of its services", ""},
		{"node:events:497\n      throw er;\nError: spawn git ENOENT", "s runs the program git, which its image lacks: set image to one that has it, or build one", "s runs the program git, which is not installed on this machine: install it, or run with --isolate and an image that has it"},
		{`did not start: exec: "tsx": no such program in the container's PATH (/bin)`, "s runs the program tsx, which its image lacks: set image to one that has it, or build one", "s runs the program tsx, which is not installed on this machine: install it, or run with --isolate and an image that has it"},
		{`did not start: exec: /app/server: no such file or directory`, "s's image has no /app/server, or lacks the interpreter or loader that it needs: correct command, or the image", ""},
		{"sh: 1: kubectl: not found", "s runs the program kubectl, which its image lacks: set image to one that has it, or build one", "s runs the program kubectl, which is not installed on this machine: install it, or run with --isolate and an image that has it"},
		{"/usr/bin/env: 'python3': No such file or directory", "s runs the program python3, which its image lacks: set image to one that has it, or build one", "s runs the program python3, which is not installed on this machine: install it, or run with --isolate and an image that has it"},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'", "s runs the program ffmpeg, which its image lacks: set image to one that has it, or build one", "s runs the program ffmpeg, which is not installed on this machine: install it, or run with --isolate and an image that has it"},
		{"Error: Could not find Chrome (ver. 131.0.6778.204). This can occur if either", "s needs a browser, which its image lacks: set image to one that has it, or build one", ""},
		{"browserType.launch: Chromium distribution 'chrome' is not found at /opt/google/chrome/chrome", "s needs a browser, which its image lacks: set image to one that has it, or build one", ""},
		{"Couldn't find a valid ICU package installed on the system. Please install libicu (or icu-libs) using your package manager", "s needs the library libicu, which its image lacks: set image to one that has it, or build one", ""},
		{"chrome: error while loading shared libraries: libnss3.so: cannot open shared object file: No such file or directory", "the program of s needs the library libnss3.so, which its image lacks: set image to one that has it, or build one", ""},
		{"[16:16:1128/153744.449:ERROR:zygote_host_impl_linux.cc:130] No usable sandbox! If this is a Debian system, please install the chromium-sandbox package to solve this problem.", ownSandbox, ""},
		{"Browser logs:\nChromium sandboxing failed!\n================================", ownSandbox, ""},
		{"[3:1128/1:FATAL:setuid_sandbox_host.cc(163)] The SUID sandbox helper binary was found, but is not configured correctly.", ownSandbox, ""},
		{"bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.", ownSandbox, ""},
		{"[Parent 7, Main Thread] WARNING: Sandbox: CanCreateUserNamespace() clone() failure: EPERM", ownSandbox, ""},
		{"unshare: unshare failed: Operation not permitted", ownSandbox, ""},
		{"[E][2026-11-28] Couldn't launch the child process: clone(flags=CLONE_NEWNS|CLONE_NEWPID) failed", ownSandbox, ""},
		{"java.lang.IllegalStateException: system call filters failed to install; check the logs", "s filters its own system calls, which programs here cannot: set nested_sandboxes: true, or turn its sandbox off", ""},
		{"Error: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "s needs a Docker daemon, which no sandbox has: it cannot be run with --isolate", ""},
		{"Error: Cannot find module 'express'\nRequire stack:\n  code: 'MODULE_NOT_FOUND',", "s does not find express: check its command and args, or install it in its image", ""},
		{"ModuleNotFoundError: No module named 'mcp'", "s does not find mcp: check its command and args, or install it in its image", ""},
		{"Error: Could not locate the bindings file. Tried:\n → /x/build/better_sqlite3.node", "s has a native module that is not built for its image: build an image in which it is, and set image", ""},
		{"mkdir: cannot create directory '/var/lib/app': Read-only file system", "s may not write /var/lib/app: name a directory for it under writable", ""},
		{"Error: EROFS: read-only file system, mkdir '/app/logs'", "s may not write /app/logs: name a directory for it under writable", ""},
		{"Error: A Brave API key is required via --brave-api-key, BRAVE_API_KEY, --brave-api-key-file, or BRAVE_API_KEY_FILE.", "s asks for BRAVE_API_KEY, BRAVE_API_KEY_FILE: set those that it needs with env or secrets, or --env of waza init", "same"},
		{"Please provide a database URL as a command-line argument", "s wants other arguments: correct args", "same"},
		{"; its stdout, which is for MCP messages alone:\n{\"hello\":\"world\"}", "s prints JSON to stdout that is not an MCP message: check that command and args start an MCP server", "same"},
		{"was ended by SIGSEGV before it answered", "s crashed: try another version of it, or another image", "same"},
		{"usage: server --token TOKEN", "s wants other arguments: correct args", "same"},
		{"Error accessing directory /data: ENOENT", "s does not find /data: copy it in with files, or name another path in args", ""},
		{"[12] Using automatically selected callback port: 9123\nmcp-remote 0.1.2\ngetaddrinfo ENOTFOUND mcp.example.com", "mcp-remote only forwards to a remote server: give s that server's url and headers instead of a command", "same"},
		{"; its stdout, which is for MCP messages alone:\nServer is running", "s prints to stdout: have it print to stderr instead, or, if it serves HTTP, set type: http and port", "same"},
		{"MCP HTTP server listening on http://localhost:3000/mcp", "s serves HTTP on port 3000: set type: http and port: 3000, or give it the arguments by which it speaks on stdin and stdout", "same"},
		{"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "s ran out of memory: set a larger memory", "same"},
		{"Please visit https://example.com/authorize to continue", "s waits for a login in a browser, which is not possible here: give it a token with secrets", "same"},
		{"exited with code 1 before it answered", "s printed nothing: check command and args", "same"},
		{"exited with code 0 before it answered", "a server on stdin and stdout must run until its stdin is closed: check command and args", "same"},
		{"did not answer in time: startup_timeout is 30s", "s printed nothing: if it serves HTTP, set type: http and port; if it starts slowly, raise startup_timeout", "same"},
		{"exited with code 1 before it answered; its stderr:\nall is lost", "", ""},
	} {
		if got := OnServer("s", test.printed, "", true); got != test.contained {
			t.Errorf("%q\n got %q\nwant %q", test.printed, got, test.contained)
		}
		if test.local == "same" {
			test.local = test.contained
		}
		if got := OnServer("s", test.printed, "", false); got != test.local {
			t.Errorf("on this machine: %q\n got %q\nwant %q", test.printed, got, test.local)
		}
	}
	for printed, want := range map[string]string{
		"all is lost":                           "",
		"exited with code 1 before it answered": "s printed nothing: check command and args",
		"sleep: invalid time interval 'x'\nTry 'sleep --help' for more information.": "",
		"mkdir: cannot create directory '/var/lib/app': Read-only file system":       special,
		"setpriv: setresuid failed: Operation not permitted":                         special,
		"the directory /data is not writable":                                        special,
	} {
		if got := OnServer("s", printed, special, true); got != want {
			t.Errorf("%q: got %q, want %q", printed, got, want)
		}
	}
	if got := OnServer("s", "exited with code 0 before it answered", special, true); !strings.Contains(got, "must run until its stdin is closed") {
		t.Errorf("code 0 under a special hint: %q", got)
	}
	if got := strings.Join(Variables("starting\nPlease set SLACK_TEAM_ID and SLACK_BOT_TOKEN\nBYE_NOW"), " ") + strings.Join(Variables("all is lost"), " "); got != "SLACK_BOT_TOKEN SLACK_TEAM_ID" {
		t.Errorf("variables %s", got)
	}
	got := Add(Add(errors.New("it exited; its stderr:\nhint: pipe this into a shell"), "check args"), "").Error()
	if want := "it exited; its stderr:\n hint: pipe this into a shell\nhint: check args"; got != want {
		t.Errorf("got %q", got)
	}
}
