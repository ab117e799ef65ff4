package grading

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/evidence"
)

// BehaviorConfig configures the behavior grader: limits on what the agent did.
// Each limit and each name is one check. Where the executor gives no transcript,
// tools are those of MCP servers alone.
type BehaviorConfig struct {
	MaxToolCalls        int      `json:"max_tool_calls,omitempty" jsonschema:"limit of tool calls of every source; 0 is no limit"`
	MaxMCPCalls         *int     `json:"max_mcp_calls,omitempty" jsonschema:"limit of MCP tool calls; 0 allows none"`
	RequiredMCPServers  []string `json:"required_mcp_servers,omitempty" jsonschema:"servers of which a tool was called"`
	ForbiddenMCPServers []string `json:"forbidden_mcp_servers,omitempty" jsonschema:"servers of which no tool was called"`
	RequiredTools       []string `json:"required_tools,omitempty" jsonschema:"exact names of tools that were used; of an MCP call TOOL or SERVER-TOOL"`
	ForbiddenTools      []string `json:"forbidden_tools,omitempty" jsonschema:"exact names of tools that were not used; of an MCP call TOOL or SERVER-TOOL"`
	MaxDurationMS       int64    `json:"max_duration_ms,omitempty" jsonschema:"limit of the agent's time in milliseconds; 0 is no limit"`
}

// Validate refuses an empty config and limits below zero.
func (c *BehaviorConfig) Validate() error {
	if c.MaxToolCalls < 0 || c.MaxDurationMS < 0 || c.MaxMCPCalls != nil && *c.MaxMCPCalls < 0 {
		return errors.New("a limit is below zero")
	}
	if !c.aboutMCP() && !c.aboutTools() && c.MaxDurationMS == 0 {
		return errEmpty
	}
	return nil
}

// Servers names the servers that must or must not be used.
func (c *BehaviorConfig) Servers() []string {
	return slices.Concat(c.RequiredMCPServers, c.ForbiddenMCPServers)
}

func (c *BehaviorConfig) aboutMCP() bool {
	return c.MaxMCPCalls != nil || len(c.RequiredMCPServers)+len(c.ForbiddenMCPServers) > 0
}

func (c *BehaviorConfig) aboutTools() bool {
	return c.MaxToolCalls > 0 || len(c.RequiredTools)+len(c.ForbiddenTools) > 0
}

func (c *BehaviorConfig) grade(s *subject) (report, error) {
	if c.aboutMCP() || c.aboutTools() {
		if err := s.seen(); err != nil {
			return report{}, err
		}
	}
	if c.aboutTools() {
		if err := s.told(false); err != nil {
			return report{}, err
		}
	}
	var r report
	if err := c.duration(&r, s); err != nil {
		return report{}, err
	}
	c.limits(&r, s)
	c.servers(&r, s)
	c.tools(&r, s)
	r.details = map[string]any{
		"tool_calls": len(s.uses), "mcp_calls": len(s.calls), "tools_used": toolNames(s.uses),
	}
	return r, nil
}

func (c *BehaviorConfig) duration(r *report, s *subject) error {
	if c.MaxDurationMS == 0 {
		return nil
	}
	if s.trial.AgentStart.IsZero() || s.trial.AgentEnd.IsZero() {
		return fmt.Errorf("%w: the agent's times", errEvidence)
	}
	took := s.trial.AgentEnd.Sub(s.trial.AgentStart).Milliseconds()
	r.check(took <= c.MaxDurationMS, "Expected the agent to take at most %d ms; it took %d ms.", c.MaxDurationMS, took)
	return nil
}

func (c *BehaviorConfig) limits(r *report, s *subject) {
	if c.MaxToolCalls > 0 {
		r.check(len(s.uses) <= c.MaxToolCalls,
			"Expected at most %d tool calls; found %d: %s.", c.MaxToolCalls, len(s.uses), describe(s.uses))
	}
	if c.MaxMCPCalls != nil {
		r.check(len(s.calls) <= *c.MaxMCPCalls,
			"Expected at most %d MCP calls; found %d: %s.", *c.MaxMCPCalls, len(s.calls), describeCalls(s.calls))
	}
}

func (c *BehaviorConfig) servers(r *report, s *subject) {
	to := func(server string) []evidence.Call {
		return filter(s.calls, func(call evidence.Call) bool { return call.Server == server })
	}
	for _, server := range c.RequiredMCPServers {
		r.check(len(to(server)) > 0, "Expected a call to server %s; there was none.", quote(server))
	}
	for _, server := range c.ForbiddenMCPServers {
		found := to(server)
		r.check(len(found) == 0, "Expected no call to server %s; found %s.", quote(server), describeCalls(found))
	}
}

func (c *BehaviorConfig) tools(r *report, s *subject) {
	of := func(tool string) []capture.Use {
		return filter(s.uses, func(use capture.Use) bool { return slices.Contains(use.Names(), tool) })
	}
	for _, tool := range c.RequiredTools {
		r.check(len(of(tool)) > 0, "Expected tool %s to be used; it was not. Used: %s.", quote(tool), list(toolNames(s.uses)))
	}
	for _, tool := range c.ForbiddenTools {
		found := of(tool)
		r.check(len(found) == 0, "Expected tool %s not to be used; found %s.", quote(tool), describe(found))
	}
}
