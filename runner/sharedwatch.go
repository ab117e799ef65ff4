package runner

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/canary"
)

// An instance records what happens to its server with every trial at work. Where there is
// none, the next one gets it.
var _ overseer = (*instance)(nil)

// lookOutAs has the instance look for what a trial looks for. It is called once, before
// anything happens.
func (i *instance) lookOutAs(tr *trialRun) {
	if tr.lookout != nil {
		i.canaries, i.idle.lookout = tr.lookout.set, tr.lookout.telling(&i.idle)
	}
}

// Frame implements proxy.Recorder: what crosses is recorded by each trial's
// own proxy.
func (i *instance) Frame(evidence.Frame) int64 { return 0 }

// Event implements proxy.Recorder.
func (i *instance) Event(e evidence.Event) {
	i.tell(func(rec eventRecorder, l *lookout) {
		rec.Event(e)
		l.event(e)
	})
}

// Named implements overseer.
func (i *instance) Named(box, host string) {
	i.tell(func(_ eventRecorder, l *lookout) { l.named(box, evidence.ByEgress, host) })
}

// tell has something told to every trial at work.
func (i *instance) tell(one func(eventRecorder, *lookout)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for tr := range i.users {
		one(tr.rec, tr.lookout)
	}
	if len(i.users) == 0 {
		one(&i.idle, i.idle.lookout)
	}
}

// Tap implements overseer: what leaves is looked through for whoever is at work when it
// does. It takes no
// lock of the instance, which asks what is under way with that held.
func (i *instance) Tap(box, host string) io.Writer {
	if i.canaries == nil {
		return io.Discard
	}
	return &sharedTap{instance: i, through: i.canaries.Writer(func(found canary.Found) {
		i.tell(func(_ eventRecorder, l *lookout) { l.left(box, host, found) })
	})}
}

// sharedTap looks through one connection, which may outlive trials.
type sharedTap struct {
	*instance
	through *canary.Writer
	round   int // of the bytes so far
}

// Write implements io.Writer. What was told to some trials is told to others again.
func (t *sharedTap) Write(p []byte) (int, error) {
	t.mu.Lock()
	round := t.instance.round
	t.mu.Unlock()
	if round != t.round {
		t.round = round
		t.through.Again()
	}
	return t.through.Write(p)
}

// hand gives a trial what is kept of a life that is over.
func (i *instance) hand(tr *trialRun) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.idle.hand(tr.rec)
}

// maxKept is how many events are kept for the next trial, sightings of canaries aside:
// those are bounded by the lookout.
const maxKept = 2000

// idle keeps what happens to a server while no trial is at work, and looks for canaries
// in it.
type idle struct {
	lookout *lookout // nil where the run has no canaries
	kept    []evidence.Event
	dropped map[string]int // by kind
}

// Event implements eventRecorder.
func (k *idle) Event(e evidence.Event) {
	if e.Kind != evidence.EventCanary && len(k.kept) >= maxKept {
		if k.dropped == nil {
			k.dropped = map[string]int{}
		}
		k.dropped[e.Kind]++
		return
	}
	e.Message += " (while no trial was at work)"
	k.kept = append(k.kept, e)
}

// hand records what is kept, and keeps it no longer.
func (k *idle) hand(rec eventRecorder) {
	for _, e := range k.kept {
		rec.Event(e)
	}
	for _, kind := range slices.Sorted(maps.Keys(k.dropped)) {
		n := k.dropped[kind]
		rec.Event(evidence.Event{
			Kind: kind, Message: fmt.Sprintf("%d more of this kind are not on record, from while no trial was at work", n),
			Data: map[string]any{"untold": n, "untold_before": n},
		})
	}
	k.kept, k.dropped, k.lookout = nil, nil, k.lookout.telling(k)
}
