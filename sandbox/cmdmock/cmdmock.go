// Package cmdmock defines the messages between a mocked command in the agent's container and the
// runner: the invocation, and its answer.
//
// The command is a link to waza's own executable. It requests the answer from the runner, which
// records the invocation. This package knows neither the answers, nor trials or networks.
package cmdmock

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Variable is the environment variable with the URL that mocked commands send requests to.
const Variable = "WAZA_COMMANDS"

// Path is the path of that URL, relative to the gateway's.
const Path = "/.command"

// ExitUnmatched is the exit code of an invocation without a matching response.
const ExitUnmatched = 127

// maxInvocation is the maximum size of an invocation in bytes.
const maxInvocation = 1 << 20

// Invocation is one execution of a mocked command.
type Invocation struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"dir"`
}

// ReadInvocation parses an invocation. It is not trusted: any program in the agent's container
// may have sent it.
func ReadInvocation(body io.Reader) (Invocation, error) {
	var in Invocation
	raw, err := io.ReadAll(io.LimitReader(body, maxInvocation+1))
	if err != nil {
		return in, err
	}
	if len(raw) > maxInvocation {
		return in, fmt.Errorf("the arguments and the environment have more than %d bytes", maxInvocation)
	}
	return in, jsontext.Unmarshal(raw, &in)
}

// Answer is the output and exit code of a mocked command.
type Answer struct {
	Stdout   string `json:"stdout,omitempty"`
	Binary   []byte `json:"stdout_b64,omitempty"` // in place of Stdout, if that is not UTF-8
	Stderr   string `json:"stderr,omitempty"`
	ExitCode int    `json:"exit_code,omitempty"`
}

// NewAnswer returns an answer with an output of any bytes.
func NewAnswer(stdout []byte, stderr string, code int) Answer {
	a := Answer{Stderr: stderr, ExitCode: code}
	if utf8.Valid(stdout) {
		a.Stdout = string(stdout)
	} else {
		a.Binary = stdout
	}
	return a
}

// Output returns what the command writes to stdout.
func (a Answer) Output() []byte {
	if a.Binary != nil {
		return a.Binary
	}
	return []byte(a.Stdout)
}
