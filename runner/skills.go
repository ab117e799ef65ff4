package runner

import (
	"context"

	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// putSkills puts the skills into the agent's box, out of the workspace.
func (tr *trialRun) putSkills(ctx context.Context) error {
	var files []plan.File
	for _, s := range tr.plan.Skills {
		files = append(files, s.Files...)
	}
	return tr.put(ctx, sandbox.Agent, "/", files)
}
