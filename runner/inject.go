package runner

import (
	"fmt"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// injectionsFor is what a trial's attack has the agent find in results of a server.
func injectionsFor(t *plan.Trial, server string) (all []proxy.Injection) {
	if !t.UnderAttack() {
		return nil
	}
	for i, one := range t.Attack.Injections {
		if one.Server == server && one.Tool != "" {
			all = append(all, proxy.Injection{Number: i + 1, Tool: one.Tool, Text: one.Text, Match: one.Match})
		}
	}
	return all
}

// tellInjectedFiles tells which injections are in the workspace that the agent gets.
func (tr *trialRun) tellInjectedFiles() {
	if !tr.plan.UnderAttack() {
		return
	}
	for i, one := range tr.plan.Attack.Injections {
		if one.File != "" {
			tr.rec.Event(evidence.Event{
				Kind: evidence.EventInjection, Where: sandbox.Agent, Message: fmt.Sprintf("injection %d is in file %s", i+1, one.File),
				Data: map[string]any{evidence.DataInjection: i + 1, "file": one.File},
			})
		}
	}
}
