package grading

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// ServerBehavior limits what an agent did with one MCP server. Its tools are exact
// names, or /expressions/ over whole names.
type ServerBehavior struct {
	MaxCalls       *int     `json:"max_calls,omitempty" jsonschema:"limit of calls of its tools; 0 allows none"`
	MaxErrors      *int     `json:"max_errors,omitempty" jsonschema:"limit of calls that ended as tool_error, protocol_error, transport_error or timeout; 0 allows none"`
	RequiredTools  []string `json:"required_tools,omitempty" jsonschema:"tools that were called"`
	ForbiddenTools []string `json:"forbidden_tools,omitempty" jsonschema:"tools that were not called"`
}

func (b ServerBehavior) validate() error {
	if b.MaxCalls == nil && b.MaxErrors == nil && len(b.RequiredTools)+len(b.ForbiddenTools) == 0 {
		return errEmpty
	}
	var errs []error
	if b.MaxCalls != nil && *b.MaxCalls < 0 {
		errs = append(errs, errors.New("max_calls: below zero"))
	}
	if b.MaxErrors != nil && *b.MaxErrors < 0 {
		errs = append(errs, errors.New("max_errors: below zero"))
	}
	for _, name := range slices.Concat(b.RequiredTools, b.ForbiddenTools) {
		if _, err := match.CompileTool(name); err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (b ServerBehavior) grade(r *report, s *subject, server string) error {
	if !s.declared(server) {
		return fmt.Errorf("the trial has no server %s", quote(server))
	}
	if err := s.seen(server); err != nil {
		return err
	}
	calls := s.callsTo(server)
	if b.MaxCalls != nil {
		r.check(len(calls) <= *b.MaxCalls, "Expected at most %d calls to server %s; found %d: %s.",
			*b.MaxCalls, quote(server), len(calls), describeCalls(calls))
	}
	if b.MaxErrors != nil {
		failed := filter(calls, isError)
		r.check(len(failed) <= *b.MaxErrors, "Expected at most %d failed calls to server %s; found %d: %s.",
			*b.MaxErrors, quote(server), len(failed), describeCalls(failed))
	}
	for _, name := range b.RequiredTools {
		r.check(len(callsOf(calls, name)) > 0, "Expected tool %s of server %s to be called; it was not.", quote(name), quote(server))
	}
	for _, name := range b.ForbiddenTools {
		found := callsOf(calls, name)
		r.check(len(found) == 0, "Expected tool %s of server %s not to be called; found %s.", quote(name), quote(server), describeCalls(found))
	}
	return nil
}

// callsOf are the calls of a tool, given as a valid name or expression.
func callsOf(calls []evidence.Call, name string) []evidence.Call {
	tool, _ := match.CompileTool(name) // validated
	return filter(calls, func(call evidence.Call) bool { return tool.Matches(call.Tool) })
}
