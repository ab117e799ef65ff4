package trial

import (
	"cmp"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/runner/plan"
)

const (
	// minShare is the least that agent and servers need, each, for a trial to make sense.
	minShare = 4 << 20
	// costOfBytes is how much room a byte of a message takes, as a rule.
	costOfBytes = 8
	// modelEvidence is more than the gateway records of a trial.
	modelEvidence = 4 << 30
)

// Shares are what the authors of a trial's evidence may cause. The zero shares have no end.
type Shares struct {
	Agent   *bounded.Budget
	Servers map[string]*bounded.Budget
}

// Used is how much of all is taken, and left how much is not.
func (s Shares) Used() (used, left int64) {
	used, left = s.Agent.Used(), s.Agent.Max()-s.Agent.Used()
	for _, server := range s.Servers {
		used, left = used+server.Used(), left+server.Max()-server.Used()
	}
	return used, left
}

// SizeOf is how much a task's files take. They stand in before.tar and in workspace.tar, and
// no share counts them.
func SizeOf(files []plan.File) (n int64) {
	for _, f := range files {
		n += f.Size()
	}
	return n
}

func LeastShare(t *plan.Trial) int64 { return minShare * int64(1+len(t.Servers)) }

// SharesOf divides each between the agent and the servers: half is the agent's, and nobody
// has more than other limits let it write.
func SharesOf(t *plan.Trial, each int64) Shares {
	agent := costOfBytes*2*t.Agent.OutputLimit() + maxTree(t.Agent.Disk) + 2*maxTranscript
	if t.Models != nil {
		agent += modelEvidence
	}
	agent *= 1 + int64(len(t.Checkpoints)) // each is a copy
	most := map[string]int64{}
	for _, s := range t.Servers {
		crossing := costOfBytes*cmp.Or(s.MaxTraffic, transport.DefaultTraffic) + 2<<10*cmp.Or(s.MaxFrames, transport.DefaultFrames)
		agent += 2 * crossing
		most[s.Name] = crossing + maxServiceOutput*int64(1+2*len(s.Services))
	}
	own := SizeOf(t.Files)
	if len(most) == 0 {
		return Shares{Agent: bounded.NewBudget(min(agent, each) + own)}
	}
	s := Shares{Agent: bounded.NewBudget(min(agent, each/2) + own), Servers: map[string]*bounded.Budget{}}
	for name, limit := range most {
		s.Servers[name] = bounded.NewBudget(min(limit, each/2/int64(len(most))))
	}
	return s
}
