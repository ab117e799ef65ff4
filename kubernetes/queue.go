package kubernetes

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// mostPending is how many pods of a run may wait for a node at once.
	mostPending = 16
	// pendingPatience is how long a pod may wait for a node before no more pods are created.
	pendingPatience = 10 * time.Second
	// pendingLimit is how long it may then still wait.
	pendingLimit = 10 * time.Minute
)

// queue limits how many pods wait for a node. While the scheduler finds no node for one of them,
// the queue admits no others.
type queue struct {
	say   func(string)
	slots *semaphore.Weighted

	mu    sync.Mutex
	stuck map[string]bool // pods for which no node was found; guarded by mu
	open  chan struct{}   // closed while none is stuck; guarded by mu
}

func newQueue(say func(string)) *queue {
	open := make(chan struct{})
	close(open)
	return &queue{say: say, slots: semaphore.NewWeighted(mostPending), stuck: map[string]bool{}, open: open}
}

// enter waits until one more pod may be created.
func (q *queue) enter(ctx context.Context) error {
	if err := q.slots.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	open := q.open
	q.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		q.leave()
		return context.Cause(ctx)
	}
}

// leave records that a pod has a node, or was given up.
func (q *queue) leave() { q.slots.Release(1) }

// halt stops admitting pods because of a pod.
func (q *queue) halt(pod, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.stuck) == 0 {
		q.open = make(chan struct{})
		q.say("no further pod is created while the cluster has no room for one: " + why)
	}
	q.stuck[pod] = true
}

// resume admits pods again, unless others are stuck.
func (q *queue) resume(pod string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(q.stuck, pod); len(q.stuck) == 0 {
		close(q.open)
	}
}
