package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// trialSandbox is the pods of one sandbox. It implements sandbox.Contained.
type trialSandbox struct {
	guests.Sandbox
	backend *Backend
	plan    []podPlan
	pods    map[string]*startedPod // not modified after the sandbox was opened

	mu     sync.Mutex
	opened string // why the network was opened, for which the pods were ended; guarded by mu
	open   bool   // the node can be reached, which the run allows; guarded by mu

	closeOnce sync.Once
	closeErr  error
}

var _ sandbox.Contained = (*trialSandbox)(nil)

// apply starts all pods in parallel, and checks their walls from inside before any untrusted
// program runs there.
func (s *trialSandbox) apply(ctx context.Context, room *share) error {
	started := make([]*startedPod, len(s.plan))
	group, gctx := errgroup.WithContext(ctx)
	for i, p := range s.plan {
		group.Go(func() (err error) {
			started[i], err = s.backend.start(gctx, p, room)
			return err
		})
	}
	err := group.Wait()
	for _, c := range started {
		if c != nil {
			s.pods[c.plan.container] = c
			s.Add(c.plan.container, &c.Container, c.plan.writable)
		}
	}
	if err != nil {
		return explainRefusal(s.backend.config, err)
	}
	s.backend.mu.Lock()
	s.backend.live[s] = true
	s.backend.mu.Unlock()
	if why := s.backend.policy.broken(); why != "" { // broken before the watch knew the sandbox
		return explain(s.backend.namespace, why)
	}
	return s.Settle(ctx, func(ctx context.Context, name string, c *guests.Container) error {
		err := guests.CheckWalls(c.Guest.Hello(), guests.Walls{Interface: !s.backend.config.RemoveInterface, OwnKernel: s.backend.config.RuntimeClass != "", OwnUsers: ownUsers(s.pods[name].plan.pod)})
		if err == nil && c.Guest.Hello().Interfaces > 1 && !s.Spec.Probe {
			err = s.proveClosed(ctx, s.pods[name])
		}
		return err
	})
}

const (
	kubeletPort = "10250"
	metadata    = "169.254.169.254:80"
	// reachPatience is how long a pod tries to connect to a forbidden address.
	reachPatience = 400 * time.Millisecond
)

// proveClosed makes a pod's guest try to connect to its node, the API and the metadata service of
// clouds. It returns an error if a connection succeeds, unless the run allows that.
func (s *trialSandbox) proveClosed(ctx context.Context, c *startedPod) error {
	aims := append(s.backend.outside(c.followed), metadata)
	reached := make([]bool, len(aims))
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	var trying sync.WaitGroup
	for i, aim := range aims {
		trying.Go(func() {
			if conn, err := c.Guest.Dial(ctx, aim); err == nil {
				reached[i] = true
				_ = conn.Close()
			}
		})
	}
	trying.Wait()
	for i, aim := range aims {
		if !reached[i] {
			continue
		}
		if !slices.Contains(s.backend.weak, probe.HostTCP) {
			return fmt.Errorf("it reaches %s in spite of the namespace's policy: have the cluster enforce NetworkPolicy between pods and their node, set config.isolation.kubernetes.remove_interface, or allow it by --allow-weak %s", aim, probe.HostTCP)
		}
		s.mu.Lock()
		s.open = true
		s.mu.Unlock()
	}
	return nil
}

// cut ends the containers, because their network was opened.
func (s *trialSandbox) cut(why string) {
	s.mu.Lock()
	s.opened = why
	s.mu.Unlock()
	for _, c := range s.pods {
		go func() { _ = c.Guest.Close() }()
	}
}

// Ended implements sandbox.Sandbox.
func (s *trialSandbox) Ended(ctx context.Context, name string) sandbox.Exit {
	c := s.pods[name]
	if c == nil {
		return sandbox.Exit{}
	}
	s.mu.Lock()
	opened := s.opened
	s.mu.Unlock()
	if opened != "" {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its network was opened: " + opened}
	}
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if c.Guest.Err() == nil && c.Guest.Ping(asked) == nil {
		return sandbox.Exit{}
	}
	return c.exitOf(ctx)
}

// starved reports whether a pod that no longer answers ran out of memory.
func (f *followed) starved(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reportedWithin)
	defer cancel()
	pod, _, _ := f.await(ctx, func(pod *corev1.Pod, gone bool) bool { return gone || over(pod) })
	if pod == nil {
		return false
	}
	status := statusOf(pod)
	return status != nil && status.State.Terminated != nil && status.State.Terminated.Reason == oomKilled
}

// Guarantees implements sandbox.Sandbox.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	runtime := s.backend.config.RuntimeClass
	if runtime != "" {
		runtime = "runtime class " + runtime
	}
	g := s.CommonGuarantees("kubernetes", runtime)
	g.Enforced = append(g.Enforced,
		"every server in a pod of its own",
		"cpu of every container is limited", "memory of every container is limited",
		"the workspace has a hard size limit",
		"what process 1 writes to the runner is encrypted in the node's log of the container",
	)
	g.Missing = append(g.Missing,
		"how many processes, files and open files a container has is limited only if the nodes limit it",
	)
	own := 0
	for _, p := range s.plan {
		if ownUsers(s.pods[p.container].plan.pod) {
			own++
		}
	}
	enforced, missing := userMaps(own, len(s.plan), s.backend.sharesUsers.Load())
	g.Enforced, g.Missing = append(g.Enforced, enforced...), append(g.Missing, missing...)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.backend.config.RemoveInterface:
		g.Enforced = append(g.Enforced, "no container has a network interface")
	case s.open:
		g.Enforced = append(g.Enforced, "pods reach no other pod, by the namespace's policy")
		g.Missing = append(g.Missing, "pods reach their own node: policies of this cluster do not stop that")
	default:
		g.Enforced = append(g.Enforced, "pods reach nothing, by the namespace's policy; each was seen not to reach its node, the cluster's API and the metadata service")
	}
	for _, p := range s.plan {
		if p.insists != "" {
			g.Missing = append(g.Missing, guests.SharedUser(p.container, p.user, p.insists))
		}
	}
	slices.Sort(g.Enforced)
	slices.Sort(g.Missing)
	return g
}

// Enter implements sandbox.Sandbox.
func (s *trialSandbox) Enter(name string) string {
	return fmt.Sprintf("kubectl -n %s exec -it %s -- sh", s.backend.namespace, s.pods[name].plan.pod.Name)
}

// checkPause is the pause after a failed check.
const checkPause = 200 * time.Millisecond

// Ready implements sandbox.Contained.
func (s *trialSandbox) Ready(ctx context.Context, server, service string, check process.Spec, failed func(string)) error {
	name := sandbox.ServiceName(server, service)
	c, err := s.Container(name)
	if err != nil {
		return err
	}
	if check, err = s.pods[name].plan.image.CheckOf(check); err != nil {
		return err
	}
	for {
		checked, err := guests.Check(ctx, c.Guest, check)
		switch {
		case err == nil && checked.Ready():
			return s.Expose(ctx, server, service)
		case err == nil:
			failed(checked.Found)
		}
		switch {
		case retry.Sleep(ctx, checkPause) == nil:
		case checked.Found != "":
			return errors.New(checked.Found)
		default:
			return cmp.Or(err, ctx.Err())
		}
	}
}

// Close implements sandbox.Sandbox.
func (s *trialSandbox) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *trialSandbox) close(ctx context.Context) error {
	s.backend.mu.Lock()
	wasOpen := s.backend.live[s]
	delete(s.backend.live, s)
	s.backend.mu.Unlock()
	errs := make(chan error, len(s.pods))
	for _, c := range s.pods {
		go func() { errs <- c.Close(ctx) }()
	}
	var err error
	for range s.pods {
		err = errors.Join(err, <-errs)
	}
	if wasOpen {
		s.backend.room.closed()
	}
	s.Wait()
	return err
}
