package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// Resumption is a request to complete a run.
type Resumption struct {
	Dir  string // run directory
	Eval string // path of the eval; empty if it has not moved
	Pace        // if neither Workers nor Auto is set, the run's number is used
	// Isolated is the --isolate flag; nil if it was not given.
	Isolated  *bool
	HostHooks bool
	// ReadOverlay reads the file that was laid over the eval's servers.
	ReadOverlay func(path string) (*mcpconfig.ClientFile, error)
	// Sweep removes what an interrupted run left on its engine or as processes.
	Sweep func(ctx context.Context, dead Record) error

	Host Host
}

// Resume completes a run that ended early, and keeps its completed trials. The job is nil if no
// trial was left to run, or if planning failed.
func Resume(ctx context.Context, r Resumption) (*Job, Outcome, error) {
	record, held, err := holdRun(r.Dir)
	if errors.As(err, new(Mistake)) {
		return nil, Outcome{}, mistake("--resume: %w", err)
	}
	if err != nil {
		return nil, Outcome{}, err
	}
	defer func() { _ = held.Close() }()
	if r.Isolated != nil && *r.Isolated != record.Isolated {
		return nil, Outcome{}, mistake("--isolate cannot be changed with --resume: a run is resumed with its own options")
	}
	left, err := Recover(ctx, r.Dir, record, trial.Consulting{Connect: r.Host.Recorded, Secrets: r.Host.Secrets})
	if err != nil {
		return nil, Outcome{}, err
	}
	if left.Complete {
		r.Host.Say(r.Dir + " is complete: no trial is left to run")
		out, err := r.conclude(ctx, record, left)
		return nil, out, err
	}
	j, err := r.load(ctx, record)
	if err != nil {
		return nil, Outcome{}, err
	}
	j.Dir = r.Dir
	if err := r.Host.checkOffline(ctx, getting(j.Request.Eval), j.Trials, plan.Needs(j.Trials)); err != nil {
		return nil, Outcome{}, err
	}
	for _, damaged := range left.Damaged {
		r.Host.Warn(fmt.Errorf("%s; it is run again, and what was there is kept in %s", damaged, evidence.InterruptedDir))
	}
	todo := left.missing(j.Trials)
	workers, err := j.workersFor(todo)
	if err := errors.Join(err, j.readSecrets(ctx)); err != nil {
		return nil, Outcome{}, err
	}
	e := &execution{Job: j, todo: todo, workers: workers, left: left, resumed: true, record: record}
	out, err := e.execute(ctx)
	return j, out, err
}

// load plans the run again. It fails if the plan differs from the original one.
func (r Resumption) load(ctx context.Context, record Record) (*Job, error) {
	if build := r.Host.Build(); record.Waza != r.Host.Waza || record.Build != build {
		return nil, mistake("the run was started by waza %s (build %s) and this is waza %s (build %s): resume it with that one, or start a new run",
			record.Waza, record.Build, r.Host.Waza, build)
	}
	path := cmp.Or(r.Eval, record.EvalPath())
	if err := record.CheckInputs(path); err != nil {
		return nil, mistake("%w: start a new run", err)
	}
	q, err := record.Again(r.ReadOverlay)
	if err != nil {
		return nil, err
	}
	q.Eval, q.HostHooks, q.Host = path, r.HostHooks, r.Host
	if r.Workers == 0 && !r.Auto {
		r.Workers = q.Workers
	}
	q.Pace = r.Pace
	if record.MCP != nil && record.MCP.SHA256 != "" && q.Overlay.SHA256 != record.MCP.SHA256 {
		return nil, mistake("%s has changed since the run started: start a new run", q.Overlay.Name)
	}
	own := slices.DeleteFunc(slices.Clone(record.Tasks), func(t TaskRecord) bool { return t.Kept })
	q.Select = func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) { return sameTasks(tasks, own) }
	q.ID, q.Omit = record.ID, []string{r.Dir}
	return Load(ctx, q)
}

// conclude ends a run that has no trial left. If the run was killed before its end, it is
// swept and gets its digests.
func (r Resumption) conclude(ctx context.Context, record Record, left Recovered) (Outcome, error) {
	if record.Ended.IsZero() || record.Interrupted {
		if err := r.Sweep(ctx, record); err != nil {
			return Outcome{}, err
		}
		return finish(ctx, r.Dir, record, len(left.Kept), time.Now().UTC())
	}
	return record.conclude(r.Dir)
}

// fromDirectory resolves a path of the run's command line.
func fromDirectory(record Record, path string) string {
	if here, err := os.Getwd(); filepath.IsAbs(path) || err == nil && here == record.Directory {
		return path
	}
	return filepath.Join(record.Directory, path)
}

// sameTasks returns the tasks that the run started with.
func sameTasks(tasks []eval.ResolvedTask, begun []TaskRecord) ([]eval.ResolvedTask, error) {
	var same []eval.ResolvedTask
	for _, b := range begun {
		at := slices.IndexFunc(tasks, func(t eval.ResolvedTask) bool { return t.ID == b.ID })
		if at < 0 {
			return nil, mistake("the eval no longer has the task %s, which the run started with: start a new run", b.ID)
		}
		same = append(same, tasks[at])
	}
	return same, nil
}

// sameImages returns an error if an image has changed since the run started.
func sameImages(begun, now evidence.ImageRecords) error {
	for _, ref := range slices.Sorted(maps.Keys(begun)) {
		if found, ok := now[ref]; ok && found.ID != begun[ref].ID {
			return mistake("image %s has changed since the run started (%.19s, now %.19s): start a new run", ref, begun[ref].ID, found.ID)
		}
	}
	return nil
}

// missing returns the trials that are not kept.
func (r Recovered) missing(trials []*plan.Trial) []*plan.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t *plan.Trial) bool {
		return r.Kept[t.ID()]
	})
}
