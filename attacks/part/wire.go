package part

import "slices"

// Tasks whose trials several attacks by protocol share.
const (
	Ambiguous = "call-name-twice" // each attack has a server of its own, called as it is
	Hidden    = "hidden-tool"
	Routing   = "host-of-another"
	Forging   = "answer-other-type"
)

// Attacks by an answer to what another conversation waits for, which has the id Pending.
const (
	OtherSession = "answer-other-session"
	OtherServer  = "answer-other-server"
	Pending      = "77"
)

// SlowReader is the attack that asks for much and reads nothing.
const SlowReader = "slow-reader"

// Talkers returns the servers that it asks.
func Talkers() []string { return []string{Left, Right, "third"} }

// Servers of attacks by protocol. Filtered shows the tool Shown alone; Left and Right
// show both.
const (
	Filtered = "filtered"
	Left     = "left"
	Right    = "right"
)

// Tools of servers that read loosely.
const (
	Shown  = "open"
	Kept   = "hidden"
	Safe   = "/safe"
	Unsafe = "/etc"
)

// Ran returns what such a server tells on its stderr, which is outside of all protocols, of a
// call that it carried out. The mark is who the call is an attack of.
func Ran(tool, path, mark string) string { return "ran " + tool + " " + path + " for " + mark }

// Flooded returns what a server tells there that was heard to the end of a flood.
func Flooded(mark string) string { return "nobody stopped " + mark }

// Forgeries returns the attacks that forging servers carry out, one call each.
func Forgeries() []string {
	return slices.Concat([]string{
		Forging, "answer-twice", "answer-ahead", "ask-with-agents-id", "answer-after-cancel", "never-answer",
		"changing-tools", OtherSession, OtherServer,
	}, Oddities(), Floods())
}

// Oddities returns those of them that are answered in the end, by the server Patient, which
// may take its time: some are megabytes, and the machine may be busy.
func Oddities() []string {
	return []string{
		"version-future", "version-old", "version-empty", "version-array", "version-stateless",
		"json-deep", "json-huge-numbers", "json-not-utf8", "json-lone-surrogates", "json-nul", "json-byte-order-mark",
		"json-utf16", "json-keys-twice", "batch-empty", "batch-nested", "batch-huge", "stream-lines",
	}
}

// Patient is the server that [Oddities] are said by.
const Patient = "patient"

// Floods returns those of them that have a server of their own.
func Floods() []string { return []string{"long-line", "small-frames", "noise-lines"} }
