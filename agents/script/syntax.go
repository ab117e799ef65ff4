package script

import (
	"context"
	"fmt"
)

// Bounds of a script.
const (
	maxIterations = 10_000 // of all loops of a run together
	maxLoopDepth  = 8      // loops inside loops
)

// Script is a script that was checked. The zero Script has no steps and does
// nothing.
type Script struct {
	steps []step
}

// step is one item of a list of steps.
type step struct {
	path   string // such as script[3].loop.steps[0].call
	as     string // what its value is called; may be empty
	action action
}

// action is what a step does. Its value is a JSON value; see variables.
type action interface {
	run(context.Context, *runner) (any, error)
}

// SyntaxError is one mistake in a script.
type SyntaxError struct {
	Path    string // where, such as script[3].loop.steps[0].call.server
	Message string
}

func (e *SyntaxError) Error() string { return e.Path + ": " + e.Message }

// StepError is a step that did not go as the script has it.
type StepError struct {
	Path string // which step, such as script[3].loop.steps[0].call
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns what went wrong.
func (e *StepError) Unwrap() error { return e.Err }
