package attacks

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// unfilteredPids marks the container whose seccomp filter the engine drops.
const unfilteredPids = 77

// unfiltered returns a create request without the seccomp filter of that container.
func unfiltered(create []byte) []byte {
	var all, host map[string]json.RawMessage
	if json.Unmarshal(create, &all) != nil || json.Unmarshal(all["HostConfig"], &host) != nil || string(host["PidsLimit"]) != strconv.Itoa(unfilteredPids) {
		return create
	}
	host["SecurityOpt"] = json.RawMessage(`["no-new-privileges", "seccomp=unconfined"]`)
	all["HostConfig"], _ = json.Marshal(host) // re-encodes JSON
	create, _ = json.Marshal(all)
	return create
}

// guaranteeAttacks returns the attacks by containers that lack an isolation that is
// recorded for them.
func guaranteeAttacks() []Attack {
	return []Attack{{
		Attack: entry(part.Unfiltered, "run without a seccomp filter, on an engine that omits it, in a trial whose record claims one", probe.CalledRight, checkedWalls),
		As:     Server, Won: calledFiltered,
		Alone: &Alone{Engine: unfiltered},
		Task:  func(_ Ground, t *eval.Task) { t.MCPServers[evil].Pids = unfilteredPids },
	}}
}

// calledFiltered reports whether a server that ran without a seccomp filter is recorded as
// having had one.
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
