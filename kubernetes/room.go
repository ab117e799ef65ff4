package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"golang.org/x/sync/semaphore"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

const (
	// quotaPatience is how long a quota may have no room for a trial while no other trial of
	// the run can end; while one can, it is pendingLimit.
	quotaPatience = time.Minute
	// quotaPause is after which time a trial is tried again although no other has ended.
	quotaPause = 10 * time.Second
)

// roomError says that a quota of the namespace, or the cluster, has no room for a pod of a trial.
type roomError struct{ error }

func lacksRoom(err error) bool {
	var full roomError
	return errors.As(err, &full)
}

// share is what a trial that is being opened has of the cluster's room.
type share struct {
	alone  bool         // no other trial of the run is being opened
	placed atomic.Int32 // pods that have a node
}

// yields reports whether the trial is to give back what it has if one of its pods has no node:
// trials that each hold a part of the room would wait for each other.
func (s *share) yields() bool { return !s.alone && s.placed.Load() > 0 }

// explainRefusal says what to do if err is that of a pod that the cluster does not admit.
func explainRefusal(c kube.Settings, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	what, why, _ := strings.Cut(err.Error(), " is forbidden: ")
	what, _, _ = strings.Cut(what, ": ") // "pod NAME: pods NAME"
	quota, exceeded := strings.CutPrefix(why, "exceeded quota: ")
	uncounted, waits := strings.CutPrefix(why, uncountedQuota)
	switch {
	case waits:
		name, _, _ := strings.Cut(uncounted, ", ")
		return roomError{fmt.Errorf("%s: the ResourceQuota %s of the namespace %s does not say yet what is used: the cluster's controllers have to count it", what, name, nameOf(c))}
	case exceeded:
		name, figures, _ := strings.Cut(quota, ", ")
		return roomError{fmt.Errorf("%s: the ResourceQuota %s of the namespace %s has no room for it: %s; lower --workers, or ask for a larger quota", what, name, nameOf(c), figures)}
	case strings.Contains(why, " per Container is ") || strings.Contains(why, " per Pod is "):
		return fmt.Errorf("%s: a LimitRange of the namespace %s does not allow it: %s; change cpus and memory in the eval, or ask for other limits", what, nameOf(c), why)
	case strings.HasPrefix(why, "violates PodSecurity"):
		option := ""
		if c.RemoveInterface {
			option = " --remove-interface"
		}
		return fmt.Errorf("%s: the namespace %s does not allow it: %s; apply what waza doctor --on kubernetes --print%s prints", what, nameOf(c), why, option)
	case strings.Contains(why, "cannot create resource"):
		return fmt.Errorf("%w; waza doctor --on kubernetes says what is missing", err)
	}
	return err
}

// room lets trials wait until there is room for all of their pods.
type room struct {
	openers *semaphore.Weighted // a trial that waits has it whole
	ended   chan struct{}       // holds a value once a sandbox of the run has been closed
	said    sync.Once

	mu   sync.Mutex
	full error // there was none, and no trial whose end would make any; guarded by mu
}

func newRoom() *room {
	return &room{openers: semaphore.NewWeighted(math.MaxInt64), ended: make(chan struct{}, 1)}
}

// exhausted returns why the run cannot go on; nil if it can.
func (r *room) exhausted() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full
}

// closed says that a sandbox is closed.
func (r *room) closed() {
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// openSandbox opens a sandbox. If there is no room for one of its pods, none of them stays, and it is
// opened again alone, when a trial has ended.
func (r *room) openSandbox(ctx context.Context, b *Backend, open func(alone bool) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	if err := r.openers.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	s, err := open(false)
	r.openers.Release(1)
	if !lacksRoom(err) {
		return s, err
	}
	r.said.Do(func() { b.queue.say("trials wait for others to end: " + err.Error()) })
	if err := r.openers.Acquire(ctx, math.MaxInt64); err != nil {
		return nil, context.Cause(ctx)
	}
	defer r.openers.Release(math.MaxInt64)
	for last := time.Now(); ; {
		if err := r.exhausted(); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrEngineGone, err)
		}
		if s, err = open(true); !lacksRoom(err) {
			return s, err
		}
		select {
		case <-r.ended:
			last = time.Now()
		case <-time.After(quotaPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch waited, busy := time.Since(last), b.busy(); {
		case busy && waited > pendingLimit:
			return nil, err
		case !busy && waited > quotaPatience:
			r.mu.Lock()
			r.full = err
			r.mu.Unlock()
		}
	}
}
