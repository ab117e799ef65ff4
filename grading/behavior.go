package grading

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/model/dialect"
)

// BehaviorConfig configures the behavior grader, which limits the agent's actions. Each
// limit and each name is one check. If the executor has no transcript, only tools of MCP
// servers count.
type BehaviorConfig struct {
	_ struct{} `unknown:"warn"`

	MaxToolCalls        int                       `json:"max_tool_calls,omitempty" min:"0" jsonschema:"limit of tool calls of all kinds; 0 for no limit"`
	MaxMCPCalls         *int                      `json:"max_mcp_calls,omitempty" min:"0" jsonschema:"limit of MCP tool calls; 0 to allow none"`
	MCPServers          map[string]ServerBehavior `json:"mcp_servers,omitempty" jsonschema:"limits for single servers, by name"`
	RequiredMCPServers  []string                  `json:"required_mcp_servers,omitempty" jsonschema:"servers of which a tool must be called"`
	ForbiddenMCPServers []string                  `json:"forbidden_mcp_servers,omitempty" jsonschema:"servers of which no tool may be called"`
	RequiredTools       []string                  `json:"required_tools,omitempty" jsonschema:"exact names of tools that must be used; for an MCP call TOOL or SERVER-TOOL"`
	ForbiddenTools      []string                  `json:"forbidden_tools,omitempty" jsonschema:"exact names of tools that must not be used; for an MCP call TOOL or SERVER-TOOL"`
	MaxTokens           int                       `json:"max_tokens,omitempty" min:"0" jsonschema:"limit of input and output tokens of all model calls, as the providers count them; 0 for no limit; if calls did not go through the gateway, or a provider gave no count, the verdict is error"`
	MaxIterations       int                       `json:"max_iterations,omitempty" min:"0" jsonschema:"limit of model turns, as the model gateway counts them; 0 for no limit"`
	MaxDurationMS       int64                     `json:"max_duration_ms,omitempty" min:"0" jsonschema:"time limit of the agent in milliseconds; 0 for no limit"`
}

// Validate refuses an empty config, and servers without a limit.
func (c *BehaviorConfig) Validate() error {
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

// needs implements limiting.
func (c *BehaviorConfig) needs() []string {
	requires := func(server string) bool { return len(c.MCPServers[server].RequiredTools) > 0 }
	return slices.Concat(c.RequiredMCPServers, filter(sortedKeys(c.MCPServers), requires))
}

func (c *BehaviorConfig) aboutMCP() bool {
	return c.MaxMCPCalls != nil || len(c.RequiredMCPServers)+len(c.ForbiddenMCPServers) > 0
}

func (c *BehaviorConfig) aboutTools() bool {
	return c.MaxToolCalls > 0 || len(c.RequiredTools)+len(c.ForbiddenTools) > 0
}

func (c *BehaviorConfig) grade(s *subject) (report, error) {
	var r report
	if c.aboutMCP() || c.aboutTools() {
		r.lacks(s.seen())
	}
	if c.aboutTools() {
		r.lacks(s.builtinsKnown(false))
	}
	r.lacks(errors.Join(c.duration(&r, s), c.tokens(&r, s), c.iterations(&r, s)))
	c.limits(&r, s)
	c.servers(&r, s)
	for _, server := range sortedKeys(c.MCPServers) {
		c.MCPServers[server].grade(&r, s, server)
	}
	namedTools(&r, s, c.RequiredTools, c.ForbiddenTools)
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
	r.measure("max_duration_ms", took.Milliseconds() <= c.MaxDurationMS, "Expected the agent to take at most %d ms; it took %d ms.", c.MaxDurationMS, took.Milliseconds())
	return nil
}

// tokens checks the tokens that models' providers counted. Agents without a model use none.
func (c *BehaviorConfig) tokens(r *report, s *subject) error {
	if c.MaxTokens == 0 {
		return nil
	}
	var used dialect.Usage
	if !evidence.AsksNoModel(s.trial.Executor) {
		var err error
		if used, err = s.tokens(); err != nil && used.Total() <= int64(c.MaxTokens) {
			return err
		}
	}
	r.measure("max_tokens", used.Total() <= int64(c.MaxTokens),
		"Expected at most %d tokens; %d were used: %d in, %d out.", c.MaxTokens, used.Total(), used.Input, used.Output)
	return nil
}

// iterations checks how many turns the gateway saw the model take. Agents without a model take
// none.
func (c *BehaviorConfig) iterations(r *report, s *subject) error {
	if c.MaxIterations == 0 {
		return nil
	}
	models, turns := s.models(), 0
	if models == nil && !evidence.AsksNoModel(s.trial.Executor) {
		return fmt.Errorf("%w: what the agent asked models was not recorded, so its turns are not known; name its models in config.models", errEvidence)
	}
	if models != nil {
		for call, err := range models {
			if err != nil && turns <= c.MaxIterations {
				return fmt.Errorf("%w: %s", errEvidence, s.explain(err))
			}
			if err == nil && call.IsTurn() && call.Status/100 == 2 {
				turns++
			}
		}
	}
	r.measure("max_iterations", turns <= c.MaxIterations, "Expected the model to take at most %d turns; it took %d.", c.MaxIterations, turns)
	return nil
}

func (c *BehaviorConfig) limits(r *report, s *subject) {
	if c.MaxToolCalls > 0 {
		r.atMost("max_tool_calls", c.MaxToolCalls, "tool calls", s.uses)
	}
	if c.MaxMCPCalls != nil {
		r.atMost("max_mcp_calls", *c.MaxMCPCalls, "MCP calls", filter(s.uses, selector{source: anyServer}.covers))
	}
}

func (c *BehaviorConfig) servers(r *report, s *subject) {
	for _, server := range c.RequiredMCPServers {
		r.need("required_mcp_servers", len(filter(s.uses, ofServer(server).covers)) > 0, "Expected a call to server %s; there was none.", quote(server))
	}
	for _, server := range c.ForbiddenMCPServers {
		found := filter(s.uses, ofServer(server).covers)
		r.check("forbidden_mcp_servers", len(found) == 0, "Expected no call to server %s; found %s.", quote(server), describe(found))
	}
}

// ServerBehavior limits the use of one MCP server. Its tools are exact names, or
// /expressions/ that match whole names.
type ServerBehavior struct {
	MaxCalls       *int         `json:"max_calls,omitempty" min:"0" jsonschema:"limit of calls of its tools; 0 to allow none"`
	MaxErrors      *int         `json:"max_errors,omitempty" min:"0" jsonschema:"limit of calls that end as tool_error, protocol_error, transport_error or timeout; 0 to allow none"`
	RequiredTools  []match.Tool `json:"required_tools,omitempty" jsonschema:"tools that must be called"`
	ForbiddenTools []match.Tool `json:"forbidden_tools,omitempty" jsonschema:"tools that must not be called"`
}

func (b ServerBehavior) validate() error {
	if b.MaxCalls == nil && b.MaxErrors == nil && len(b.RequiredTools)+len(b.ForbiddenTools) == 0 {
		return errEmpty
	}
	return errors.Join(checkNames("required_tools", b.RequiredTools), checkNames("forbidden_tools", b.ForbiddenTools))
}

func (b ServerBehavior) grade(r *report, s *subject, server string) {
	gap := r.lacks(s.seen(server))
	calls := filter(s.uses, ofServer(server).covers)
	of := func(tool match.Tool) []capture.Use {
		return filter(calls, func(use capture.Use) bool { return tool.Matches(use.Tool) })
	}
	if b.MaxCalls != nil {
		r.atMost("max_calls", *b.MaxCalls, "calls to server "+quote(server), calls)
	}
	if b.MaxErrors != nil {
		r.atMost("max_errors", *b.MaxErrors, "failed calls to server "+quote(server), filter(calls, func(use capture.Use) bool {
			return use.Failed && !(gap && unanswered(*use.Call)) // its answer may be missing
		}))
	}
	for _, tool := range b.RequiredTools {
		r.need("required_tools", len(of(tool)) > 0, "Expected tool %s of server %s to be called; it was not.", tool, quote(server))
	}
	for _, tool := range b.ForbiddenTools {
		r.check("forbidden_tools", len(of(tool)) == 0, "Expected tool %s of server %s not to be called; found %s.", tool, quote(server), describe(of(tool)))
	}
}
