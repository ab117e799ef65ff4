// Package process defines a program that runs in a sandbox of any backend.
package process

import (
	"io"
	"slices"
	"strings"
)

// Spec is a program to start.
type Spec struct {
	Args []string // Args[0] is looked up in the container's PATH
	// OfImage runs the entrypoint of the container's image. Args, if there are any, replace its CMD.
	OfImage bool
	Env     []string // "KEY=value", added to the container's own; may hold secrets
	Dir     string   // working directory; empty is the container's
	// PathFirst is a directory that is searched for programs before PATH.
	PathFirst string
}

// LookupEnv returns the last value of a variable in env, which is the effective one.
func LookupEnv(env []string, key string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// WithPath returns env with first put in front of PATH, or env if first is empty. If env has
// several PATHs, the last one counts.
func WithPath(env []string, first string) []string {
	if first == "" {
		return env
	}
	path, ok := LookupEnv(env, "PATH")
	if !ok {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return append(slices.Clone(env), "PATH="+first+":"+path)
}

// Exit is the exit status of a program.
type Exit struct {
	Code   int    // -1 if it was killed by a signal
	Signal string // such as "SIGKILL"; empty if it exited
}

// Signal is a signal that a runner sends.
type Signal string

const (
	Interrupt Signal = "SIGINT"
	Terminate Signal = "SIGTERM"
	Kill      Signal = "SIGKILL"
)

// Process is a running program. Stdout and Stderr must be read to the end, or the program may
// block.
type Process interface {
	// Stdin returns the program's stdin. Closing it is the end of file.
	Stdin() io.WriteCloser
	// Stdout and Stderr return io.EOF when the program has closed them, or a short time after
	// it has exited if children keep them open.
	Stdout() io.Reader
	Stderr() io.Reader
	// Signal sends a signal to the program and everything it started.
	Signal(Signal) error
	// Wait returns when the program has exited and its output has been read. It fails if the
	// sandbox was closed first.
	Wait() (Exit, error)
}
