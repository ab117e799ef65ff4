package containers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/retry"
)

// watch follows the engine's events about a run's containers and networks, to distinguish what
// somebody did to them through the engine from what they did themselves. It only uses ids.
type watch struct {
	engine *engine
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex
	containers map[string]*containerEvents // by id; guarded by mu
	networks   map[string]func()           // callbacks for disconnections, by network name; guarded by mu
}

// containerEvents is the state of one container according to the engine's events.
type containerEvents struct {
	watch *watch
	id    string
	died  chan struct{} // closed when the engine has reported its exit

	over bool   // died is closed; guarded by the watch's mu
	oom  bool   // a program was killed because of memory; guarded by the watch's mu
	done string // the last fatal action of somebody outside, or ""; guarded by the watch's mu
}

const (
	// reportedWithin is how long to wait for the event about a container's exit.
	reportedWithin = 5 * time.Second
	// The pauses between attempts to reconnect grow from firstPause to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 3 * time.Second
)

// startWatch watches events since the engine was dialled.
func startWatch(e *engine) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{engine: e, stop: cancel, containers: map[string]*containerEvents{}, networks: map[string]func(){}}
	stream := w.requestEvents(ctx, e.info.SystemTime)
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

// requestEvents requests all events since a time of the engine's clock.
func (w *watch) requestEvents(ctx context.Context, since string) eventStream {
	args := client.Filters{}.Add("type", string(events.ContainerEventType), string(events.NetworkEventType))
	for _, action := range []events.Action{events.ActionKill, events.ActionPause, events.ActionUnPause, events.ActionOOM, events.ActionDie, events.ActionDisconnect, events.ActionDestroy} {
		args.Add("event", string(action))
	}
	stream := w.engine.Events(ctx, client.EventsListOptions{Since: since, Filters: args})
	return eventStream{stream.Messages, stream.Err, since}
}

// read processes events until ctx is done. After an error it resumes at the last event.
func (w *watch) read(ctx context.Context, s eventStream) {
	for pause := firstPause; ; {
		select {
		case m := <-s.messages:
			s.since, pause = fmt.Sprintf("%d.%09d", m.TimeNano/1e9, m.TimeNano%1e9), firstPause
			w.handleEvent(ctx, m)
		case <-s.errs:
			if retry.Sleep(ctx, pause) != nil {
				return
			}
			s, pause = w.requestEvents(ctx, s.since), min(2*pause, lastPause)
		}
	}
}

func (w *watch) handleEvent(ctx context.Context, m events.Message) {
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

// killing describes a signal that process 1 cannot handle, or returns "".
func killing(signal string) string {
	switch number, _ := strconv.Atoi(signal); number {
	case 9:
		return "was killed"
	case 19:
		return "was stopped"
	}
	return ""
}

// takeNetworkLocked handles the event that a network lost a container or was removed.
// Containers that have ended are disconnected by the engine itself.
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

// follow starts to follow a container. It is called before the container is started.
func (w *watch) follow(id string) *containerEvents {
	c := &containerEvents{watch: w, id: id, died: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.containers[id] = c
	return c
}

// unfollow stops following; further events are caused by us.
func (c *containerEvents) unfollow() {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	delete(c.watch.containers, c.id)
}

// outside returns what somebody did to a container through the engine, or "". The container
// must have stopped answering; gone means that its process 1 has closed its connection.
func (c *containerEvents) outside(ctx context.Context, gone bool) string {
	c.waitReported(ctx, gone)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.done
}

// starved reports whether a container that has stopped answering ran out of memory.
func (c *containerEvents) starved(ctx context.Context, gone bool) bool {
	c.waitReported(ctx, gone)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.oom
}

// waitReported waits for the event about a container's exit, if it has ended. All earlier events
// have been processed then. gone means that process 1 has closed its connection: the engine may
// still call the container running, since it learns of the exit later.
func (c *containerEvents) waitReported(ctx context.Context, gone bool) {
	if !gone && c.watch.engine.running(ctx, c.id) {
		return
	}
	select {
	case <-c.died:
	case <-time.After(reportedWithin):
	case <-ctx.Done():
	}
}

// followNetwork calls cut when the network is removed, or a container is disconnected by
// somebody, until leave is called.
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
