package grading

import (
	"errors"
	"fmt"
	"slices"
)

// BehaviorConfig configures the behavior grader: limits on what the agent did.
// Each limit and each name is one check. Where the executor gives no transcript,
// tools are those of MCP servers alone.
type BehaviorConfig struct {
	_ struct{} `unknown:"warn"`

	MaxToolCalls        int                       `json:"max_tool_calls,omitempty" jsonschema:"limit of tool calls of every source; 0 is no limit"`
	MaxMCPCalls         *int                      `json:"max_mcp_calls,omitempty" jsonschema:"limit of MCP tool calls; 0 allows none"`
	MCPServers          map[string]ServerBehavior `json:"mcp_servers,omitempty" jsonschema:"limits on single servers, by name"`
	RequiredMCPServers  []string                  `json:"required_mcp_servers,omitempty" jsonschema:"servers of which a tool was called"`
	ForbiddenMCPServers []string                  `json:"forbidden_mcp_servers,omitempty" jsonschema:"servers of which no tool was called"`
	RequiredTools       []string                  `json:"required_tools,omitempty" jsonschema:"exact names of tools that were used; of an MCP call TOOL or SERVER-TOOL"`
	ForbiddenTools      []string                  `json:"forbidden_tools,omitempty" jsonschema:"exact names of tools that were not used; of an MCP call TOOL or SERVER-TOOL"`
	MaxTokens           int                       `json:"max_tokens,omitempty" jsonschema:"limit of tokens, in and out; 0 is no limit"`
	MaxIterations       int                       `json:"max_iterations,omitempty" jsonschema:"limit of the model's turns; 0 is no limit"`
	MaxDurationMS       int64                     `json:"max_duration_ms,omitempty" jsonschema:"limit of the agent's time in milliseconds; 0 is no limit"`
}

// Validate refuses an empty config, limits below zero, servers of which nothing is
// said and names of tools that are none.
func (c *BehaviorConfig) Validate() error {
	if c.MaxToolCalls < 0 || c.MaxTokens < 0 || c.MaxIterations < 0 || c.MaxDurationMS < 0 || c.MaxMCPCalls != nil && *c.MaxMCPCalls < 0 {
		return errors.New("a limit is below zero")
	}
	if !c.aboutMCP() && !c.aboutTools() && c.MaxDurationMS == 0 && c.MaxTokens == 0 && c.MaxIterations == 0 && len(c.MCPServers) == 0 {
		return errEmpty
	}
	var errs []error
	for _, server := range sortedKeys(c.MCPServers) {
		if err := c.MCPServers[server].validate(); err != nil {
			errs = append(errs, fmt.Errorf("mcp_servers.%s: %w", server, err))
		}
	}
	return errors.Join(errs...)
}

// Servers names the servers that must or must not be used, or are limited.
func (c *BehaviorConfig) Servers() []string {
	return slices.Concat(c.RequiredMCPServers, c.ForbiddenMCPServers, sortedKeys(c.MCPServers))
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
	if err := errors.Join(c.duration(&r, s), c.tokens(&r, s), c.iterations(&r, s)); err != nil {
		return report{}, err
	}
	c.limits(&r, s)
	c.servers(&r, s)
	for _, server := range sortedKeys(c.MCPServers) {
		if err := c.MCPServers[server].grade(&r, s, server); err != nil {
			return report{}, err
		}
	}
	if err := r.namedTools(s, c.RequiredTools, c.ForbiddenTools); err != nil {
		return report{}, err
	}
	r.details = map[string]any{
		"tool_calls": len(s.uses), "mcp_calls": len(s.calls), "tools_used": toolNames(s.uses),
	}
	return r, nil
}

func (c *BehaviorConfig) duration(r *report, s *subject) error {
	if c.MaxDurationMS == 0 {
		return nil
	}
	took, known := s.trial.AgentTime()
	if !known {
		return fmt.Errorf("%w: the agent's times", errEvidence)
	}
	r.check(took.Milliseconds() <= c.MaxDurationMS, "Expected the agent to take at most %d ms; it took %d ms.", c.MaxDurationMS, took.Milliseconds())
	return nil
}

// tokens judges what the models' providers counted. Agents that use no model use none.
func (c *BehaviorConfig) tokens(r *report, s *subject) error {
	if c.MaxTokens == 0 {
		return nil
	}
	if s.trial.Executor == "mock" || s.trial.Executor == "script" {
		r.checks++
		return nil
	}
	used, err := s.tokens()
	if err != nil {
		return err
	}
	r.check(used.Total() <= int64(c.MaxTokens),
		"Expected at most %d tokens; %d were used: %d in, %d out.", c.MaxTokens, used.Total(), used.Input, used.Output)
	return nil
}

// iterations judges how many turns the gateway saw the model take. Agents that use no
// model take none.
func (c *BehaviorConfig) iterations(r *report, s *subject) error {
	if c.MaxIterations == 0 {
		return nil
	}
	models, turns := s.models(), 0
	if models == nil && s.trial.Executor != "mock" && s.trial.Executor != "script" {
		return fmt.Errorf("%w: no model gateway was in the way, so nothing tells how many turns the model took; declare config.models", errEvidence)
	}
	if models != nil {
		for call, err := range models {
			if err != nil {
				return fmt.Errorf("%w: %s", errEvidence, s.explain(err))
			}
			if call.IsTurn() && call.Status/100 == 2 {
				turns++
			}
		}
	}
	r.check(turns <= c.MaxIterations, "Expected the model to take at most %d turns; it took %d.", c.MaxIterations, turns)
	return nil
}

func (c *BehaviorConfig) limits(r *report, s *subject) {
	if c.MaxToolCalls > 0 {
		r.atMost(c.MaxToolCalls, "tool calls", s.uses)
	}
	if c.MaxMCPCalls != nil {
		r.check(len(s.calls) <= *c.MaxMCPCalls,
			"Expected at most %d MCP calls; found %d: %s.", *c.MaxMCPCalls, len(s.calls), describeCalls(s.calls))
	}
}

func (c *BehaviorConfig) servers(r *report, s *subject) {
	for _, server := range c.RequiredMCPServers {
		r.check(len(s.callsTo(server)) > 0, "Expected a call to server %s; there was none.", quote(server))
	}
	for _, server := range c.ForbiddenMCPServers {
		found := s.callsTo(server)
		r.check(len(found) == 0, "Expected no call to server %s; found %s.", quote(server), describeCalls(found))
	}
}
