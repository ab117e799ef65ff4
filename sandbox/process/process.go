// Package process defines a program that was started in a sandbox, whatever backend
// started it.
package process

import (
	"io"
	"slices"
	"strings"
)

// Spec is a program to start.
type Spec struct {
	Args []string // Args[0] is looked up in the container's PATH
	// OfImage runs the entrypoint of the container's image, with Args in place of its CMD if there
	// are any.
	OfImage bool
	Env     []string // "KEY=value", added to the container's own; may hold secrets
	Dir     string   // working directory; empty is the container's
	// PathFirst is a directory that is searched for programs before those of PATH.
	PathFirst string
}

// WithPath returns env with first put in front of PATH, or env if first is empty. If env has
// several PATHs, the last one counts.
func WithPath(env []string, first string) []string {
	if first == "" {
		return env
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	return append(slices.Clone(env), "PATH="+first+":"+path)
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // -1 where a signal ended it
	Signal string // such as "SIGKILL"; empty where it exited
}

// Signal is one of the signals a runner sends.
type Signal string

const (
	Interrupt Signal = "SIGINT"
	Terminate Signal = "SIGTERM"
	Kill      Signal = "SIGKILL"
)

// Process is a running program. Stdout and Stderr must be read to their end, or
// the program stalls.
type Process interface {
	// Stdin writes to the program; Close is its end of file.
	Stdin() io.WriteCloser
	// Stdout and Stderr end in io.EOF when the program closed them, or when it
	// ended and a short grace for its children has passed.
	Stdout() io.Reader
	Stderr() io.Reader
	// Signal goes to the program and everything it started.
	Signal(Signal) error
	// Wait returns when the program has ended and its output is at its end. It
	// fails where the sandbox went away first.
	Wait() (Exit, error)
}
