package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
)

// Shard is one of several parts of a run. Each is a run of its own, possibly on another
// machine; [Merge] merges them.
type Shard struct {
	Number int      `json:"number"` // starts at 1
	Of     int      `json:"of"`
	Tasks  []string `json:"tasks"` // ids of the tasks of all shards, in order
}

// tasksOf returns the shard's tasks: every Of-th one, with all of its trials.
func (s *Shard) tasksOf(tasks []eval.ResolvedTask) (taken []eval.ResolvedTask, err error) {
	s.Tasks = nil
	for i, t := range tasks {
		s.Tasks = append(s.Tasks, t.ID)
		if i%s.Of == s.Number-1 {
			taken = append(taken, t)
		}
	}
	if len(taken) == 0 {
		return nil, mistake("--shard %d/%d has no task: the run has %d, and every shard needs one", s.Number, s.Of, len(tasks))
	}
	return taken, nil
}

// Merging is a request to merge the shards of a run.
type Merging struct {
	Shards []string // run directories
	Dir    string   // directory of the merged run, new or empty; "" for a new one below .waza/runs
}

// Merge merges the run directories of a run's shards into one: it copies their evidence, grades
// it, and writes results, reports and digests. It returns a [Mistake] if the shards are not
// of one run, or their evidence was changed.
func Merge(m Merging) (Outcome, error) {
	record, dirs, err := m.read()
	if err != nil {
		return Outcome{}, err
	}
	j := Job{ID: record.ID}
	if err := j.place(m.Dir); err != nil {
		return Outcome{}, err
	}
	made, err := makeRunDir(j.Dir)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = made.held.Close() }()
	for id := range record.trials() {
		if err := copyTrial(j.Dir, dirs[id.Task], id); err != nil && !errors.Is(err, fs.ErrNotExist) { // an interrupted run lacks trials
			return Outcome{}, err
		}
	}
	if err := mergeProgress(j.Dir, m.Shards, func(evidence.Progress) bool { return true }); err != nil {
		return Outcome{}, err
	}
	if err := (Regrading{Dir: j.Dir}).gradeTrials(context.Background(), record, nil); err != nil {
		return Outcome{}, err
	}
	return record.end(j.Dir)
}

// copyTrial copies the evidence of a trial from one run directory to another.
func copyTrial(to, from string, id evidence.TrialID) error {
	return os.CopyFS(string(TrialDir(to, id.Task, id.Number)), os.DirFS(string(TrialDir(from, id.Task, id.Number))))
}

// read reads the shards' records, and returns the record of the merged run and the shard
// directory of each task.
func (m Merging) read() (merged Record, dirs map[string]string, err error) {
	type shard struct {
		Record
		dir string
	}
	var shards []shard
	for _, dir := range m.Shards {
		r, err := readShard(dir)
		if err != nil {
			return merged, nil, err
		}
		shards = append(shards, shard{r, dir})
	}
	slices.SortFunc(shards, func(a, b shard) int { return cmp.Compare(a.Shard.Number, b.Shard.Number) })
	first := shards[0]
	merged = first.Record
	merged.ID, merged.Merged, merged.Inputs, merged.Images = NewID(first.Eval.Name), nil, map[string]string{}, evidence.ImageRecords{}
	dirs = map[string]string{}
	tasks := map[string]TaskRecord{}
	for i, s := range shards {
		key, err := differingKey(first.Record, s.Record)
		switch {
		case err != nil:
			return merged, nil, err
		case key != "":
			return merged, nil, mistake("%s and %s are not shards of one run: %q differs in their %s", first.dir, s.dir, key, RunFile)
		case i > 0 && s.Shard.Number == shards[i-1].Shard.Number:
			return merged, nil, mistake("%s and %s are both shard %d of %d: give each shard once", shards[i-1].dir, s.dir, s.Shard.Number, s.Shard.Of)
		}
		for _, t := range s.Tasks {
			tasks[t.ID], dirs[t.ID] = t, s.dir
		}
		if err := addShard(&merged, s.dir, s.Record); err != nil {
			return merged, nil, err
		}
	}
	for number := 1; number <= first.Shard.Of; number++ {
		if number > len(shards) || shards[number-1].Shard.Number != number {
			return merged, nil, mistake("shard %d of %d is missing: give the run directories of all", number, first.Shard.Of)
		}
	}
	merged.Tasks = nil
	for _, id := range first.Shard.Tasks {
		t, ok := tasks[id]
		if !ok {
			return merged, nil, mistake("%s names the task %q, and no shard has it", first.dir, id)
		}
		merged.Tasks = append(merged.Tasks, t)
	}
	merged.Shard, merged.Plan, merged.Files = nil, "", nil
	return merged, dirs, nil
}

// readShard reads the record of a completed shard, and checks that its evidence is unchanged.
func readShard(dir string) (Record, error) {
	r, err := ReadRecord(dir)
	if err != nil {
		return r, Mistake{err}
	}
	switch {
	case r.Shard == nil || r.Shard.Of < 1 || r.Shard.Number < 1 || r.Shard.Number > r.Shard.Of:
		return r, mistake("%s is not a shard: run it with --shard", dir)
	case r.Files == nil:
		return r, mistake("%s has not ended: complete it with waza run --resume", dir)
	}
	if err := r.Files.intact(dir); err != nil {
		return r, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// addShard merges the record of the shard in dir into r.
func addShard(r *Record, dir string, shard Record) error {
	r.Merged = append(r.Merged, shard.ID)
	if shard.Started.Before(r.Started) {
		r.Started = shard.Started
	}
	if shard.Ended.After(r.Ended) {
		r.Ended = shard.Ended
	}
	r.Interrupted = r.Interrupted || shard.Interrupted
	if r.Guarantees == nil {
		r.Guarantees = shard.Guarantees
	} else if shard.Guarantees != nil {
		all := *r.Guarantees
		for _, missing := range shard.Guarantees.Missing {
			if !slices.Contains(all.Missing, missing) {
				all.Missing = append(slices.Clip(all.Missing), missing)
			}
		}
		r.Guarantees = &all
	}
	r.Certificate = weaker(r.Certificate, shard.Certificate)
	for path, sum := range shard.Inputs {
		if known, ok := r.Inputs[path]; ok && known != sum {
			return mistake("%s is not a shard of the same run: it read another %s", dir, path)
		}
	}
	for ref, image := range shard.Images {
		if known, ok := r.Images[ref]; ok && known.ID != image.ID {
			return mistake("%s is not a shard of the same run: its image %s differs", dir, ref)
		}
	}
	maps.Copy(r.Inputs, shard.Inputs)
	maps.Copy(r.Images, shard.Images)
	return nil
}

// weaker returns a certificate with every attack that got out in one of two; either may be nil.
func weaker(a, b *evidence.Certificate) *evidence.Certificate {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	c := *a
	c.Attacks = slices.Clone(a.Attacks)
	for _, out := range b.With(evidence.AttackGotOut) {
		if i := slices.IndexFunc(c.Attacks, func(a evidence.Attack) bool { return a.Name == out.Name }); i >= 0 {
			c.Attacks[i] = out
		}
	}
	return &c
}

// differingKey returns a key of run.json in which two shards of one run differ but must not, or "".
// Shards may differ in their tasks, times and machines, and so in the attacks that get out of their
// sandboxes.
func differingKey(a, b Record) (string, error) {
	for _, r := range []*Record{&a, &b} {
		r.ID, r.Started, r.Resumed, r.Ended, r.Interrupted, r.Directory = "", time.Time{}, nil, time.Time{}, false, ""
		r.Tasks, r.Inputs, r.Plan, r.Images, r.Files, r.Certificate = nil, nil, "", nil, nil, nil
		r.Eval.Path, r.Pace, r.Guarantees = "", Pace{}, nil
		if r.MCP != nil {
			r.MCP = &MCPRecord{SHA256: r.MCP.SHA256, Servers: r.MCP.Servers}
		}
		r.Engine = map[string]string{"engine": r.Engine["engine"], "version": r.Engine["version"]}
		if r.Shard != nil {
			r.Shard = &Shard{Of: r.Shard.Of, Tasks: r.Shard.Tasks}
		}
	}
	return differing(a, b)
}

// differing returns a key in which the JSON objects of a and b differ, or "".
func differing(a, b any) (key string, err error) {
	var keys [2]map[string]json.RawMessage
	for i, v := range []any{a, b} {
		data, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(data, &keys[i]); err != nil {
			return "", err
		}
	}
	for _, one := range keys { // either may lack keys of the other
		for _, key := range slices.Sorted(maps.Keys(one)) {
			if !bytes.Equal(keys[0][key], keys[1][key]) {
				return key, nil
			}
		}
	}
	return "", nil
}

// mergeProgress merges the progress.jsonl files of runs, ordered by time. It keeps only lines for
// which has returns true.
func mergeProgress(dir string, runs []string, has func(evidence.Progress) bool) error {
	var all []evidence.Progress
	for _, run := range runs {
		lines, err := evidence.ReadFile(run, evidence.ProgressFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", filepath.Join(run, evidence.ProgressFile), err)
		}
		for _, p := range evidence.ParseProgress(lines) {
			if has(p) {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b evidence.Progress) int { return a.Time.Compare(b.Time) })
	var lines []byte
	for _, p := range all {
		line, err := evidence.Marshal(p)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	return evidence.WriteFile(filepath.Join(dir, evidence.ProgressFile), lines)
}
