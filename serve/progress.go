package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// maxProgress is the number of bytes read of progress.jsonl, enough for about 400,000
// phases of trials.
const maxProgress = 64 << 20

// tracker follows a run's progress.jsonl incrementally.
type tracker struct {
	id string // of the run

	mu      sync.Mutex
	file    os.FileInfo                         // at the last read; guarded by mu, like the following fields
	offset  int64                               // read up to here
	run     runner.Progress                     // accumulated state
	calls   map[plan.TrialID]*view.CallProgress // newest call without a response
	changed map[plan.TrialID]int                // version in which a trial last changed
	version int                                 // number of changes
	looked  time.Time                           // last time that calls were read
}

func newTracker(id string) *tracker {
	t := &tracker{id: id}
	t.startOverLocked()
	return t
}

// tracker returns the tracker of a run.
func (x *runs) tracker(id string) *tracker {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.trackers[id] == nil {
		x.trackers[id] = newTracker(id)
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
	file, err := x.open(t.id, evidence.ProgressFile)
	if err != nil {
		if errors.Is(err, errNotThere) && t.file != nil {
			t.startOverLocked()
		}
		return
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return
	}
	if t.file != nil && (!os.SameFile(t.file, info) || info.Size() < t.offset) {
		t.startOverLocked()
	}
	t.file = info
	lines, err := io.ReadAll(io.NewSectionReader(file, t.offset, maxProgress-t.offset))
	if err != nil {
		return
	}
	lines = lines[:bytes.LastIndexByte(lines, '\n')+1] // the last line may be incomplete
	t.offset += int64(len(lines))
	for _, p := range evidence.ParseProgress(lines) {
		id := t.run.Add(p).ID()
		delete(t.calls, id)
		t.version++
		t.changed[id] = t.version
	}
}

// startOverLocked resets the state.
func (t *tracker) startOverLocked() {
	t.file, t.offset, t.run = nil, 0, runner.Progress{}
	t.calls, t.changed = map[plan.TrialID]*view.CallProgress{}, map[plan.TrialID]int{}
	t.version++
}

// look reads new lines, and the current calls of agents unless it did so less than ago
// earlier. It returns the current version.
func (t *tracker) look(x *runs, ago time.Duration) (version int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readLocked(x)
	if time.Since(t.looked) < ago {
		return t.version
	}
	t.looked = time.Now()
	for _, trial := range t.run.Running() {
		if trial.Phase != evidence.PhaseAgent {
			continue
		}
		id := trial.ID()
		if call := newestCall(x, t.id, id); !sameCall(t.calls[id], call) {
			t.version++
			t.calls[id], t.changed[id] = call, t.version
		}
	}
	return t.version
}

func sameCall(a, b *view.CallProgress) bool { return a == b || a != nil && b != nil && *a == *b }

// describe returns the progress of run, with the trials that changed after version since; 0
// means all trials.
func (t *tracker) describe(run view.ListedRun, since int, now time.Time) view.RunProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := view.RunProgress{
		Run: run.ID, State: run.State, Started: run.Started, Workers: run.Workers, Planned: run.Planned,
		Done: t.run.Done(), Outcomes: map[evidence.Class]int{}, Version: t.version, Trials: []view.TrialProgress{},
	}
	maps.Copy(r.Outcomes, t.run.Outcomes())
	for _, trial := range t.run.Trials() {
		if t.changed[trial.ID()] > since {
			r.Trials = append(r.Trials, view.TrialProgress{
				Task: trial.Task, Number: trial.Number, Attempt: trial.Attempt, Phase: string(trial.Phase), Since: trial.Time,
				Outcome: trial.Class, Reason: trial.Reason, Message: text.Shorten(trial.Message, maxWord), Call: t.calls[trial.ID()],
			})
		}
	}
	switch last := t.run.Last(); {
	case run.Live() && !run.Started.IsZero():
		r.ElapsedMS = max(0, now.Sub(run.Started).Milliseconds())
	case !run.Ended.IsZero():
		r.ElapsedMS = run.DurationMS
	case !run.Started.IsZero() && !last.IsZero(): // the runner was killed
		r.ElapsedMS = max(0, last.Sub(run.Started).Milliseconds())
	}
	if left, known := t.run.Left(run.Planned, run.Workers, now); known && run.State == view.StateRunning {
		r.LeftMS = new(left.Milliseconds())
	}
	return r
}

// maxTail is the number of bytes at the end of a trial's frames that are searched for an
// open call.
const maxTail = 64 << 10

// trialPath returns the path of a trial in its run's directory.
func trialPath(id plan.TrialID) string {
	return filepath.ToSlash(string(runner.TrialDir("", id.Task, id.Number)))
}

// newestCall returns the newest call of a trial without a response among the last frames,
// or nil. Incomplete lines are skipped.
func newestCall(x *runs, run string, id plan.TrialID) *view.CallProgress {
	file, err := x.open(run, path.Join(trialPath(id), evidence.FramesFile))
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
		if json.Unmarshal(line, &frame) != nil || frame.Sender == evidence.SenderHook {
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

const (
	// maxWatchers is the maximum number of clients that watch runs.
	maxWatchers = 128
	// beat is how often progress is sent when nothing changes.
	beat = 5 * time.Second
)

// watches sends the progress of runs to clients.
type watches struct {
	runs    *runs
	every   time.Duration // interval between reads of a run
	beat    time.Duration // interval between events when nothing changes
	clients chan struct{} // one element per watching client
}

func newWatches(x *runs, every time.Duration) *watches {
	return &watches{runs: x, every: every, beat: beat, clients: make(chan struct{}, maxWatchers)}
}

// join counts a watching client until leave is called.
func (w *watches) join() (leave func(), err error) {
	select {
	case w.clients <- struct{}{}:
		return func() { <-w.clients }, nil
	default:
		return nil, errTooMany
	}
}

// send sends the progress of a run as it changes. It returns when the run ends, the client
// disconnects or is too slow, or the server ends.
func (w *watches) send(ctx context.Context, to http.ResponseWriter, id string) {
	control := http.NewResponseController(to)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var sent view.RunProgress
	var at time.Time
	reported := w.runs.tracker(id)
	for {
		run, err := w.runs.find(id)
		if err != nil {
			_ = sendEvent(to, "end", view.StateUnreadable)
			return
		}
		if version := reported.look(w.runs, w.every); run.State != sent.State || version != sent.Version || time.Since(at) >= w.beat {
			now, over := reported.describe(run, sent.Version, time.Now()), !run.Live()
			if sendEvent(to, "progress", now) != nil || over && sendEvent(to, "end", now.State) != nil || control.Flush() != nil || over {
				return
			}
			sent, at = now, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func sendEvent(w http.ResponseWriter, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = sse.Message{Type: name, Data: data}.WriteTo(w)
	return err
}

// progress returns the progress of a run, live or not.
func (w *watches) progress(id string) (view.RunProgress, error) {
	run, err := w.runs.find(id)
	if err != nil {
		return view.RunProgress{}, err
	}
	reported := w.runs.tracker(id)
	reported.look(w.runs, w.every)
	return reported.describe(run, 0, time.Now()), nil
}
