package runner

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/disk"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
)

// ErrNoRoom says that the disk of a run directory has no room for what trials may record.
var ErrNoRoom = errors.New("not enough room on the disk")

const (
	// runReserve and trialReserve are kept for what no share counts: run.json, the heads of
	// reports, the records of trials and what the runner itself tells of them.
	runReserve, trialReserve = 8 << 20, 256 << 10
	// minShare is the least that agent and servers need, each, for a trial to make sense.
	minShare = 4 << 20
	// fairParts is into how many parts room is divided at least, where that many trials are
	// to come: what an agent fills is not to be missing to the trials after it.
	fairParts = 8
	// costOfBytes is how much room a byte of a message takes, as a rule.
	costOfBytes = 8
	// modelEvidence is more than the gateway records of a trial.
	modelEvidence = 4 << 30
)

// shares are what the authors of a trial's evidence may cause. The zero shares have no end.
type shares struct {
	agent   *bounded.Budget
	servers map[string]*bounded.Budget
}

// used is how much of all is taken, and left how much is not.
func (s shares) used() (used, left int64) {
	used, left = s.agent.Used(), s.agent.Max()-s.agent.Used()
	for _, server := range s.servers {
		used, left = used+server.Used(), left+server.Max()-server.Used()
	}
	return used, left
}

// budget is what trials may write to the run directory's disk.
type budget struct {
	free func() (int64, bool)
	each int64 // bytes that a trial may cause; 0 where it is not known what is free

	mu   sync.Mutex
	open map[*plan.Trial]shares // of trials under way; guarded by mu
	owed int64                  // bytes that results and reports may take of trials that have ended; guarded by mu
}

// CheckDisk reports whether the disk below dir, which need not be there yet, has room for
// trials of which so many run at once. Where it has not, it fails with [ErrNoRoom].
func CheckDisk(dir string, trials []*plan.Trial, workers int) error {
	_, err := newBudget(func() (int64, bool) { return freeBelow(dir) }, trials, workers)
	return err
}

// freeBelow is how much is free where dir is, or will be made.
func freeBelow(dir string) (int64, bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		free, known := disk.Free(dir)
		if known || filepath.Dir(dir) == dir {
			return free, known
		}
		dir = filepath.Dir(dir)
	}
	return 0, false
}

// newBudget divides what is free by the trials that run at once, and by more where more are
// to come and the parts stay large enough.
func newBudget(free func() (int64, bool), trials []*plan.Trial, workers int) (*budget, error) {
	b := &budget{free: free, open: map[*plan.Trial]shares{}}
	there, known := free()
	if !known || len(trials) == 0 {
		return b, nil
	}
	room, least := there-runReserve-int64(len(trials))*trialReserve, int64(0)
	for _, t := range trials {
		least = max(least, leastOf(t))
		room -= 2 * sizeOf(t.Files)
	}
	atOnce := int64(min(workers, len(trials)))
	if room < atOnce*least {
		return nil, fmt.Errorf("%w of the run directory: %s are free, and %d trial(s) at once need %s; free some, name another disk with --run-dir, or run fewer at once with --workers",
			ErrNoRoom, mebibytes(there), atOnce, mebibytes(there-room+atOnce*least))
	}
	parts := min(int64(len(trials)), max(atOnce, fairParts), room/least)
	b.each = room / max(atOnce, parts)
	return b, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// sizeOf is how much a task's files take. They stand in before.tar and in workspace.tar, and
// no share counts them.
func sizeOf(files []plan.File) (n int64) {
	for _, f := range files {
		n += f.Size()
	}
	return n
}

func leastOf(t *plan.Trial) int64 { return minShare * int64(1+len(t.Servers)) }

// begin gives a trial its shares, which are returned by end. It fails where others took the
// room that was there before the first trial.
func (b *budget) begin(t *plan.Trial) (shares, error) {
	if b.each == 0 {
		return shares{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	there, known := b.free()
	if !known {
		there = b.each
	}
	there -= b.owed
	for _, other := range b.open {
		_, left := other.used()
		there -= left
	}
	if there -= 2 * sizeOf(t.Files); there < leastOf(t) {
		return shares{}, fmt.Errorf("%w of the run directory: %s are left for a trial that needs %s", ErrNoRoom, mebibytes(max(there, 0)), mebibytes(leastOf(t)))
	}
	s := sharesOf(t, min(b.each, there))
	b.open[t] = s
	return s, nil
}

func (b *budget) end(t *plan.Trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used, _ := b.open[t].used()
	b.owed += used / 2 // as evidence.CostOf counts
	delete(b.open, t)
}

// sharesOf divides each between the agent and the servers: half is the agent's, and nobody
// has more than other limits let it write.
func sharesOf(t *plan.Trial, each int64) shares {
	agent := costOfBytes*2*t.Agent.OutputLimit() + maxTree(t.Agent.Disk) + 2*maxTranscript
	if t.Models != nil {
		agent += modelEvidence
	}
	agent *= 1 + int64(len(t.Checkpoints)) // each is a copy
	most := map[string]int64{}
	for _, s := range t.Servers {
		crossing := costOfBytes*cmp.Or(s.MaxTraffic, proxy.DefaultTraffic) + 2<<10*cmp.Or(s.MaxFrames, proxy.DefaultFrames)
		agent += 2 * crossing
		most[s.Name] = crossing + maxServiceOutput*int64(1+2*len(s.Services))
	}
	own := sizeOf(t.Files)
	if len(most) == 0 {
		return shares{agent: bounded.NewBudget(min(agent, each) + own)}
	}
	s := shares{agent: bounded.NewBudget(min(agent, each/2) + own), servers: map[string]*bounded.Budget{}}
	for name, limit := range most {
		s.servers[name] = bounded.NewBudget(min(limit, each/2/int64(len(most))))
	}
	return s
}

// overShare says that the agent wanted more than its share; empty where it did not.
func (tr *trialRun) overShare() string {
	if !tr.shares.agent.Over() {
		return ""
	}
	return fmt.Sprintf("the agent caused more than %d bytes of evidence, which is its share of the disk", tr.shares.agent.Max())
}

// keepFinal has the final output in the record where it fits into the agent's share, and
// blames the agent for what did not.
func (tr *trialRun) keepFinal() {
	if len(tr.record.FinalOutput) > 0 && !tr.shares.agent.Take(evidence.CostOf([]byte(tr.record.FinalOutput))) {
		tr.record.FinalOutput = ""
		tr.gap(evidence.GapFinalOutput, errors.New("it does not fit into the agent's share of the disk"))
	}
	if why := tr.overShare(); why != "" && tr.record.Class == "" {
		tr.blame(evidence.ClassAgentError, evidence.ReasonBudget, why)
	}
}
