package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// errNoSpace means that the disk of the run directory has too little space for what trials may
// write.
var errNoSpace = errors.New("not enough room on the disk")

const (
	// runReserve and trialReserve are bytes kept free for what is not part of a share:
	// run.json, parts of reports, and the records and progress of trials.
	runReserve, trialReserve = 8 << 20, 256 << 10

	// fairParts is the minimum number of parts that the free space is divided into, if there
	// are as many trials, so that one agent cannot use the space of later trials.
	fairParts = 8
)

// budget is the disk space that trials may use in the run directory.
type budget struct {
	free func() (int64, bool)
	each int64 // bytes per trial; 0 if the free space is not known

	mu      sync.Mutex
	open    map[*plan.Trial]trial.Shares // running trials; guarded by mu
	pending int64                        // bytes that results and reports of completed trials may need; guarded by mu
}

// checkDisk returns errNoSpace if the disk of dir, which may not exist yet, has too little space
// for workers trials at once.
func checkDisk(dir string, trials []*plan.Trial, workers int) error {
	_, err := newBudget(func() (int64, bool) { return freeBelow(dir) }, trials, workers)
	return err
}

// freeBelow returns how many bytes are free on the disk on which dir is or would be created.
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

// newBudget divides the free space by the number of concurrent trials, or by more if more
// trials follow and the parts stay large enough.
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
		return nil, fmt.Errorf("%w of the run directory: %s are free, and %s at once need %s; free some, name another disk with --run-dir, or run fewer at once with --workers",
			errNoSpace, mebibytes(there), text.Count(int(atOnce), "trial"), mebibytes(there-room+atOnce*least))
	}
	parts := min(int64(len(trials)), max(atOnce, fairParts), room/least)
	b.each = room / max(atOnce, parts)
	return b, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// begin allocates the shares of a trial, until end is called. It fails if the disk has run out
// of space since the start of the run.
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
		return trial.Shares{}, fmt.Errorf("%w of the run directory: %s are left for a trial that needs %s", errNoSpace, mebibytes(max(there, 0)), mebibytes(trial.LeastShare(t)))
	}
	s := trial.SharesOf(t, min(b.each, there))
	b.open[t] = s
	return s, nil
}

func (b *budget) end(t *plan.Trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used, _ := b.open[t].Used()
	b.pending += used / 2 // evidence.CostOf counts twice
	delete(b.open, t)
}
