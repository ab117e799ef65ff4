package containers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/waza-isolate/waza/internal/retry"
)

// watch follows the engine's events of a run's containers and networks, so that what
// somebody did to them through the engine is distinguished from what became of them by
// themselves. It goes by the engine's ids alone.
type watch struct {
	engine *engine
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex
	containers map[string]*followed // by id; guarded by mu
	networks   map[string]func()    // called when one is cut, by name; guarded by mu
}

// followed is what the engine has said of one container.
type followed struct {
	watch *watch
	id    string
	died  chan struct{} // closed when the engine has reported it

	over bool   // died is closed; guarded by the watch's mu
	oom  bool   // the kernel ended a program of it for want of memory; guarded by the watch's mu
	done string // what somebody outside did to it last that it does not survive; guarded by the watch's mu
}

const (
	// reportedWithin is how long after a container's end the engine may take to report it.
	reportedWithin = 5 * time.Second
	// The engine is asked again after firstPause, and then with growing pauses.
	firstPause = 100 * time.Millisecond
	lastPause  = 3 * time.Second
)

// startWatch watches what happens after the engine was dialled.
func startWatch(e *engine) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{engine: e, stop: cancel, containers: map[string]*followed{}, networks: map[string]func(){}}
	stream := w.open(ctx, e.info.SystemTime)
	w.ended.Go(func() { w.read(ctx, stream) })
	return w
}

func (w *watch) close() {
	w.stop()
	w.ended.Wait()
}

type eventStream struct {
	messages <-chan events.Message
	errs     <-chan error
	since    string
}

// open asks for all events since a time by the engine's clock.
func (w *watch) open(ctx context.Context, since string) eventStream {
	args := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("type", string(events.NetworkEventType)))
	for _, action := range []events.Action{events.ActionKill, events.ActionPause, events.ActionUnPause, events.ActionOOM, events.ActionDie, events.ActionDisconnect, events.ActionDestroy} {
		args.Add("event", string(action))
	}
	messages, errs := w.engine.Events(ctx, events.ListOptions{Since: since, Filters: args})
	return eventStream{messages, errs, since}
}

// read reads until ctx ends. A stream that breaks is resumed where it ended.
func (w *watch) read(ctx context.Context, s eventStream) {
	for pause := firstPause; ; {
		select {
		case m := <-s.messages:
			s.since, pause = fmt.Sprintf("%d.%09d", m.TimeNano/1e9, m.TimeNano%1e9), firstPause
			w.take(ctx, m)
		case <-s.errs:
			if retry.Sleep(ctx, pause) != nil {
				return
			}
			s, pause = w.open(ctx, s.since), min(2*pause, lastPause)
		}
	}
}

func (w *watch) take(ctx context.Context, m events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Type == events.NetworkEventType {
		w.takeNetworkLocked(ctx, m)
		return
	}
	c := w.containers[m.Actor.ID]
	if c == nil || c.over {
		return
	}
	switch m.Action {
	case events.ActionKill:
		if done := killing(m.Actor.Attributes["signal"]); done != "" {
			c.done = done
		}
	case events.ActionPause:
		c.done = "was paused"
	case events.ActionUnPause:
		c.done = ""
	case events.ActionOOM:
		c.oom = true
	case events.ActionDie, events.ActionDestroy:
		c.over = true
		close(c.died)
	}
}

// killing returns what a signal does that process 1 cannot prevent.
func killing(signal string) string {
	switch number, _ := strconv.Atoi(signal); number {
	case 9:
		return "was killed"
	case 19:
		return "was stopped"
	}
	return ""
}

// takeNetworkLocked takes the event that a network lost a container, or is gone. The
// engine itself takes a container that has ended out of its network.
func (w *watch) takeNetworkLocked(ctx context.Context, m events.Message) {
	cut := w.networks[m.Actor.Attributes["name"]]
	if cut == nil {
		return
	}
	id := m.Actor.Attributes["container"]
	if c := w.containers[id]; m.Action == events.ActionDisconnect && (c == nil || c.over) {
		return
	}
	w.ended.Go(func() {
		if m.Action == events.ActionDestroy || w.engine.running(ctx, id) {
			cut()
		}
	})
}

// follow begins to follow a container, before it is started.
func (w *watch) follow(id string) *followed {
	c := &followed{watch: w, id: id, died: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.containers[id] = c
	return c
}

// leave ends the following: from now on the container's end is ours.
func (c *followed) leave() {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	delete(c.watch.containers, c.id)
}

// outside returns what somebody did through the engine to a container that does not answer
// any more; empty if nobody did anything.
func (c *followed) outside(ctx context.Context) string {
	c.hearOut(ctx)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.done
}

// starved reports whether a container that does not answer any more ran out of memory.
func (c *followed) starved(ctx context.Context) bool {
	c.hearOut(ctx)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.oom
}

// hearOut waits until the engine has reported the end of a container that has ended. It
// reports what was done to the container before that.
func (c *followed) hearOut(ctx context.Context) {
	if c.watch.engine.running(ctx, c.id) {
		return
	}
	select {
	case <-c.died:
	case <-time.After(reportedWithin):
	case <-ctx.Done():
	}
}

// followNetwork calls cut when somebody removes a network, or takes a container out of it,
// until leave is called.
func (w *watch) followNetwork(name string, cut func()) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.networks[name] = cut
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.networks, name)
	}
}
