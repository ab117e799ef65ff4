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
	// quotaPatience is how long a quota may have no room for a trial while no other trial of the run
	// can end. While one can, pendingLimit applies.
	quotaPatience = time.Minute
	// quotaPause is how long to wait for the end of another trial before a trial is retried anyway.
	quotaPause = 10 * time.Second
)

// roomError means that a quota of the namespace, or the cluster, has no room for a pod of a trial.
type roomError struct{ error }

func lacksRoom(err error) bool {
	var full roomError
	return errors.As(err, &full)
}

// share is the part of the cluster's resources that a trial holds while it is opened.
type share struct {
	alone  bool         // no other trial of the run is being opened
	placed atomic.Int32 // scheduled pods
}

// yields reports whether the trial must release its pods if one of them finds no node. Otherwise
// trials that each hold a part of the resources would wait for each other.
func (s *share) yields() bool { return !s.alone && s.placed.Load() > 0 }

// explainRefusal adds advice to err if the cluster did not admit a pod.
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

// room makes trials wait until there is room for all of their pods.
type room struct {
	openers *semaphore.Weighted // a waiting trial takes all of it
	ended   chan struct{}       // contains a value after a sandbox of the run was closed
	said    sync.Once

	mu   sync.Mutex
	full error // set if there was no room, and no trial that could make any; guarded by mu
}

func newRoom() *room {
	return &room{openers: semaphore.NewWeighted(math.MaxInt64), ended: make(chan struct{}, 1)}
}

// exhausted returns why the run cannot continue, or nil.
func (r *room) exhausted() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full
}

// closed records that a sandbox was closed.
func (r *room) closed() {
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// openSandbox opens a sandbox. If there is no room for one of its pods, it removes all of them and
// retries while no other sandbox is being opened: whenever a trial has ended, and every quotaPause.
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
