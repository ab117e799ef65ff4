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

// watch follows what the engine says of a run's containers and networks, over one
// stream of events, so that what somebody did to them through the engine can be told
// from what became of them by themselves. It goes by the engine's ids alone.
type watch struct {
	engine *engine
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex
	containers map[string]*followed // by id; guarded by mu
	networks   map[string]func()    // who is told that it was cut, by name; guarded by mu
}

// followed is what the engine has said of one container.
type followed struct {
	watch *watch
	id    string
	died  chan struct{} // closed when the engine has said so

	over bool   // it was said; guarded by the watch's mu
	oom  bool   // the kernel ended a program of it for want of memory; guarded by the watch's mu
	done string // what somebody outside did to it last, which it does not survive; guarded by the watch's mu
}

// saidWithin is how long after a container's end the engine may take to say so.
const saidWithin = 5 * time.Second

// startWatch begins with what happens after the engine was dialled.
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

// open asks for all events from a moment of the engine's on.
func (w *watch) open(ctx context.Context, since string) eventStream {
	args := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("type", string(events.NetworkEventType)))
	for _, action := range []events.Action{events.ActionKill, events.ActionPause, events.ActionUnPause, events.ActionOOM, events.ActionDie, events.ActionDisconnect, events.ActionDestroy} {
		args.Add("event", string(action))
	}
	messages, errs := w.engine.Events(ctx, events.ListOptions{Since: since, Filters: args})
	return eventStream{messages, errs, since}
}

// read reads until ctx ends. A stream that broke is taken up where it ended.
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

// killing is what a signal does that no process 1 can help.
func killing(signal string) string {
	switch number, _ := strconv.Atoi(signal); number {
	case 9:
		return "was killed"
	case 19:
		return "was stopped"
	}
	return ""
}

// takeNetworkLocked looks at a network that lost a container, or is gone. That of a
// container that has ended is the engine's own doing.
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
		if m.Action == events.ActionDestroy || w.engine.stands(ctx, id) {
			cut()
		}
	})
}

// stands says whether a container runs, frozen or not.
func (e *engine) stands(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := e.ContainerInspect(ctx, id)
	return err == nil && found.State != nil && found.State.Running
}

// follow begins to look at a container, before it is started.
func (w *watch) follow(id string) *followed {
	c := &followed{watch: w, id: id, died: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.containers[id] = c
	return c
}

// leave says that its end is ours from now on.
func (c *followed) leave() {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	delete(c.watch.containers, c.id)
}

// outside is what somebody did to a container that does not answer any more; empty
// where nobody did anything.
func (c *followed) outside(ctx context.Context) string {
	c.hearOut(ctx)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.done
}

// starved says whether a container that does not answer any more ran out of memory.
func (c *followed) starved(ctx context.Context) bool {
	c.hearOut(ctx)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.oom
}

// hearOut waits for the engine's last word on a container, where it has ended. What
// was done to it is said before that it died.
func (c *followed) hearOut(ctx context.Context) {
	if c.watch.engine.stands(ctx, c.id) {
		return
	}
	select {
	case <-c.died:
	case <-time.After(saidWithin):
	case <-ctx.Done():
	}
}

// followNetwork has cut called when somebody takes a network away, or a container
// out of it, until leave is.
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
