package part

import "slices"

// Tasks whose trials several protocol attacks share.
const (
	Ambiguous = "call-name-twice" // each attack has its own server with the same name
	Hidden    = "hidden-tool"
	Routing   = "host-of-another"
	Forging   = "answer-other-type"
)

// Attacks by a response to a request with the ID Pending in another session.
const (
	OtherSession = "answer-other-session"
	OtherServer  = "answer-other-server"
	Pending      = "77"
)

// SlowReader is the attack that requests much and reads nothing.
const SlowReader = "slow-reader"

// Talkers returns the servers that SlowReader requests from.
func Talkers() []string { return []string{Left, Right, "third"} }

// Servers of protocol attacks. Filtered only offers the tool Shown; Left and Right offer
// both.
const (
	Filtered = "filtered"
	Left     = "left"
	Right    = "right"
)

// Tools and arguments of the lenient servers.
const (
	Shown  = "open"
	Kept   = "hidden"
	Safe   = "/safe"
	Unsafe = "/etc"
)

// Ran returns the line that a lenient server writes to stderr, which is independent of MCP,
// when it executes a call. The mark is the attack that made the call.
func Ran(tool, path, mark string) string { return "ran " + tool + " " + path + " for " + mark }

// Flooded returns the line that a server writes to stderr if its flood was not stopped.
func Flooded(mark string) string { return "nobody stopped " + mark }

// Forgeries returns the attacks of the forging servers, with one call each.
func Forgeries() []string {
	return slices.Concat([]string{
		Forging, "answer-twice", "answer-ahead", "ask-with-agents-id", "answer-after-cancel", "never-answer",
		"changing-tools", OtherSession, OtherServer,
	}, Oddities(), Floods())
}

// Oddities returns those Forgeries that end with a response. The server Patient sends them
// with a long timeout, since some have megabytes and the machine may be busy.
func Oddities() []string {
	return []string{
		"version-future", "version-old", "version-empty", "version-array", "version-stateless",
		"json-deep", "json-huge-numbers", "json-not-utf8", "json-lone-surrogates", "json-nul", "json-byte-order-mark",
		"json-utf16", "json-keys-twice", "batch-empty", "batch-nested", "batch-huge", "stream-lines",
	}
}

// Patient is the server of [Oddities].
const Patient = "patient"

// Floods returns those Forgeries that have a server of their own.
func Floods() []string { return []string{"long-line", "small-frames", "noise-lines"} }
