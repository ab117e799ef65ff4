package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// maxProgress is the number of bytes read of progress.jsonl, enough for about 400,000
// phases of trials.
const maxProgress = 64 << 20

// tracker follows a run's progress.jsonl incrementally.
type tracker struct {
	id string // of the run

	mu     sync.Mutex
	file   os.FileInfo     // at the last read; guarded by mu, like the following fields
	offset int64           // read up to here
	run    runner.Progress // accumulated state
}

// tracker returns the tracker of a run.
func (x *runs) tracker(id string) *tracker {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.trackers[id] == nil {
		x.trackers[id] = &tracker{id: id}
	}
	return x.trackers[id]
}

// done reads new lines and returns the number of trials that have ended.
func (t *tracker) done(x *runs) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readLocked(x)
	return t.run.Done()
}

// readLocked processes the lines added to progress.jsonl since the last read. A missing
// file has no lines yet; a replaced file is read from the start.
func (t *tracker) readLocked(x *runs) {
	file, err := x.openFile(t.id, evidence.ProgressFile)
	if err != nil {
		if errors.Is(err, errNotThere) && t.file != nil {
			t.file, t.offset, t.run = nil, 0, runner.Progress{}
		}
		return
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return
	}
	if t.file != nil && (!os.SameFile(t.file, info) || info.Size() < t.offset) {
		t.offset, t.run = 0, runner.Progress{}
	}
	t.file = info
	lines, err := io.ReadAll(io.NewSectionReader(file, t.offset, maxProgress-t.offset))
	if err != nil {
		return
	}
	lines = lines[:bytes.LastIndexByte(lines, '\n')+1] // the last line may be incomplete
	t.offset += int64(len(lines))
	for _, p := range evidence.ParseProgress(lines) {
		t.run.Add(p)
	}
}

// progress returns the progress of a run.
func (x *runs) progress(run view.ListedRun) view.RunProgress {
	t := x.tracker(run.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readLocked(x)
	return t.describeLocked(x, run, time.Now())
}

func (t *tracker) describeLocked(x *runs, run view.ListedRun, now time.Time) view.RunProgress {
	r := view.RunProgress{State: run.State, Planned: run.Planned, Done: t.run.Done(), Outcomes: maps.Clone(t.run.Outcomes())}
	for _, trial := range t.run.Trials() {
		p := view.TrialProgress{
			Task: trial.Task, Number: trial.Number, Attempt: trial.Attempt, Phase: string(trial.Phase), Since: trial.Time,
			Outcome: trial.Class, Message: text.Shorten(trial.Message, maxWord),
		}
		if trial.Phase == evidence.PhaseAgent {
			p.Call = newestCall(x, t.id, trial.ID())
		}
		r.Trials = append(r.Trials, p)
	}
	switch last := t.run.Last(); {
	case run.State.Live() && !run.Started.IsZero():
		r.ElapsedMS = max(0, now.Sub(run.Started).Milliseconds())
	case !run.Ended.IsZero():
		r.ElapsedMS = run.DurationMS
	case !run.Started.IsZero() && !last.IsZero(): // the runner was killed
		r.ElapsedMS = max(0, last.Sub(run.Started).Milliseconds())
	}
	if left, known := t.run.Left(run.Planned, run.Workers, now); known && run.State == view.StateRunning {
		r.Left = &left
	}
	return r
}

// maxTail is the number of bytes at the end of a trial's frames that are searched for an
// open call.
const maxTail = 64 << 10

// trialPath returns the path of a trial in its run's directory.
func trialPath(id evidence.TrialID) string {
	return filepath.ToSlash(string(runner.TrialDir("", id.Task, id.Number)))
}

// newestCall returns the newest call of a trial that has no response among the last frames of each server, or
// nil. Incomplete lines are skipped.
func newestCall(x *runs, run string, id evidence.TrialID) (newest *view.CallProgress) {
	names, _ := evidence.Dir(filepath.Join(x.dir, run, trialPath(id))).FrameFiles()
	for _, name := range names {
		call := newestIn(x, run, path.Join(trialPath(id), name))
		if call != nil && (newest == nil || call.Since.After(newest.Since)) {
			newest = call
		}
	}
	return newest
}

// newestIn returns the newest call in one file of frames.
func newestIn(x *runs, run, name string) *view.CallProgress {
	file, err := x.openFile(run, name)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	from := max(0, info.Size()-maxTail)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, maxTail))
	if err != nil {
		return nil
	}
	if from > 0 {
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return newestOpen(tail)
}

// newestOpen returns the newest call of the agent in lines that has no response there.
func newestOpen(lines []byte) (newest *view.CallProgress) {
	type request struct{ conn, id string }
	open := map[request]*view.CallProgress{}
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		var frame evidence.Frame
		if json.Unmarshal(line, &frame) != nil || !frame.OfAgent() {
			continue
		}
		if frame.Dir == evidence.ToClient {
			messages, _, _ := jsonrpc.Hear(frame.Raw)
			for _, m := range messages {
				if m.Method == "" {
					delete(open, request{frame.Conn, m.ID.Key})
				}
			}
			continue
		}
		if m, err := jsonrpc.ReadOne(frame.Raw); err == nil && m.ID.Key != "" && m.Method == "tools/call" {
			tool := jsontext.Word(jsontext.Member(m.Params, "name"))
			open[request{frame.Conn, m.ID.Key}] = &view.CallProgress{Server: text.Shorten(frame.Server, maxWord), Tool: text.Shorten(tool, maxWord), Since: frame.Time}
		}
	}
	for _, call := range open {
		if newest == nil || call.Since.After(newest.Since) {
			newest = call
		}
	}
	return newest
}
