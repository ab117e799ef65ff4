package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// errNoRoom says that the disk of a run directory has no room for what trials may record.
var errNoRoom = errors.New("not enough room on the disk")

const (
	// runReserve and trialReserve are bytes kept free for what no share counts: run.json, the
	// heads of reports, and the records of trials and of their progress.
	runReserve, trialReserve = 8 << 20, 256 << 10

	// fairParts is the least number of parts that the free space is divided into, where that
	// many trials remain: one agent must not take the space of the trials after it.
	fairParts = 8
)

// budget is what trials may write to the run directory's disk.
type budget struct {
	free func() (int64, bool)
	each int64 // bytes that a trial may cause; 0 where it is not known what is free

	mu      sync.Mutex
	open    map[*plan.Trial]trial.Shares // of trials under way; guarded by mu
	pending int64                        // bytes that results and reports may take of trials that have ended; guarded by mu
}

// checkDisk fails with errNoRoom if the disk of dir, which need not exist yet, has no room
// for the trials when so many of them run at once.
func checkDisk(dir string, trials []*plan.Trial, workers int) error {
	_, err := newBudget(func() (int64, bool) { return freeBelow(dir) }, trials, workers)
	return err
}

// freeBelow returns how many bytes are free on the disk where dir is or would be created.
func freeBelow(dir string) (int64, bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		free, known := files.FreeSpace(dir)
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
	b := &budget{free: free, open: map[*plan.Trial]trial.Shares{}}
	there, known := free()
	if !known || len(trials) == 0 {
		return b, nil
	}
	room, least := there-runReserve-int64(len(trials))*trialReserve, int64(0)
	for _, t := range trials {
		least = max(least, trial.LeastShare(t))
		room -= 2 * trial.SizeOf(t.Files)
	}
	atOnce := int64(min(workers, len(trials)))
	if room < atOnce*least {
		return nil, fmt.Errorf("%w of the run directory: %s are free, and %d trial(s) at once need %s; free some, name another disk with --run-dir, or run fewer at once with --workers",
			errNoRoom, mebibytes(there), atOnce, mebibytes(there-room+atOnce*least))
	}
	parts := min(int64(len(trials)), max(atOnce, fairParts), room/least)
	b.each = room / max(atOnce, parts)
	return b, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// begin gives a trial its shares, which end takes back. It fails if the space that was free
// before the first trial is gone.
func (b *budget) begin(t *plan.Trial) (trial.Shares, error) {
	if b.each == 0 {
		return trial.Shares{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	there, known := b.free()
	if !known {
		there = b.each
	}
	there -= b.pending
	for _, other := range b.open {
		_, left := other.Used()
		there -= left
	}
	if there -= 2 * trial.SizeOf(t.Files); there < trial.LeastShare(t) {
		return trial.Shares{}, fmt.Errorf("%w of the run directory: %s are left for a trial that needs %s", errNoRoom, mebibytes(max(there, 0)), mebibytes(trial.LeastShare(t)))
	}
	s := trial.SharesOf(t, min(b.each, there))
	b.open[t] = s
	return s, nil
}

func (b *budget) end(t *plan.Trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used, _ := b.open[t].Used()
	b.pending += used / 2 // as evidence.CostOf counts
	delete(b.open, t)
}
