package attacks

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/runner/spec"
)

// unfilteredPids marks the container that its engine gives no filter.
const unfilteredPids = 77

// guaranteeAttacks are by containers that lack a wall of those on record.
func guaranteeAttacks() []Attack {
	return []Attack{{
		Name: part.Unfiltered, As: Server, Promise: CalledRight, Won: calledFiltered,
		Tries: "run under no seccomp filter, by an engine that leaves it out, in a trial that has one on record",
		Without: Defence{
			Name: "walls that are looked for in each container", Build: openBuild, Edits: []Edit{noFilter(), unchecked()},
		},
		Alone: &Alone{Guest: []Edit{{
			"containers/plan.go", `if profile := r.scene.seccompFor(r.mode); profile != "" {`,
			fmt.Sprintf("profile := r.scene.seccompFor(r.mode)\n\tif r.limits.Pids == %d {\n\t\tprofile = \"unconfined\"\n\t}\n\tif profile != \"\" {", unfilteredPids),
		}}},
		Task: func(_ Ground, t *spec.Task) { t.MCPServers[evil].Pids = unfilteredPids },
	}}
}

// calledFiltered says whether a server that ran under no filter is on record as one that
// did.
func calledFiltered(s Scene) (bool, string) {
	trial, err := s.Dir.Trial()
	if err != nil {
		return false, err.Error()
	}
	if trial.Guarantees == nil {
		return false, "nothing is guaranteed: " + s.Result().Message
	}
	ran, detail := SaidSo(s)
	return ran && slices.Contains(trial.Guarantees.Enforced, "containers run under a seccomp filter"), detail
}
