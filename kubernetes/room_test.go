package kubernetes

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
)

const (
	exceeded  = "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4"
	uncounted = "status unknown for quota: team, resources: pods"
)

// A pod that the cluster does not admit is reported with what to do.
func TestRefusals(t *testing.T) {
	for why, want := range map[string]string{
		exceeded:  "the ResourceQuota team of the namespace n has no room for it: requested: pods=1, used: pods=4, limited: pods=4; lower --workers, or ask for a larger quota",
		uncounted: "the ResourceQuota team of the namespace n does not say yet what is used: the cluster's controllers have to count it",
		"maximum memory usage per Container is 32Mi, but limit is 64Mi":               "a LimitRange of the namespace n does not allow it: maximum memory usage per Container is 32Mi, but limit is 64Mi; change cpus and memory in the eval, or ask for other limits",
		`violates PodSecurity "restricted:latest": runAsNonRoot != true`:              `the namespace n does not allow it: violates PodSecurity "restricted:latest": runAsNonRoot != true; apply what waza doctor --on kubernetes --print --remove-interface prints`,
		`User "u" cannot create resource "pods" in API group "" in the namespace "n"`: "waza doctor --on kubernetes says what is missing",
		"a webhook of the cluster's":                                                  "a webhook of the cluster's",
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, err := refused(t, why, math.MaxInt)
			lacks, attempts := why == exceeded || why == uncounted, 1
			if why == uncounted {
				attempts = countAttempts
			}
			if err == nil || !strings.HasPrefix(err.Error(), "pod ") || !strings.HasSuffix(err.Error(), want) || lacksRoom(err) != lacks || asked != attempts {
				t.Errorf("%q: asked %d times: %v", why, asked, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if asked, err := refused(t, uncounted, 2); err == nil || strings.Contains(err.Error(), "ResourceQuota") || asked != 3 {
			t.Errorf("a quota that is counted in the end: asked %d times: %v", asked, err)
		}
	})
}

// refused starts a pod on a cluster that refuses so many and ends the next, and returns how many
// it was asked for and the error.
func refused(t *testing.T, why string, times int) (asked int, refusal error) {
	t.Helper()
	b, client := faked()
	b.images, b.config = guests.Images{Images: map[string]guests.Image{"": {Reference: "r"}}}, kube.Settings{Namespace: "n", RemoveInterface: true}
	b.users, b.lease = usersFor("r", 1000), &lease{owner: metav1.OwnerReference{UID: types.UID("u")}}
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		if asked++; asked > times {
			pod.Status.Phase = corev1.PodFailed
			b.watch.handlePod(pod, false)
			return true, pod, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New(why))
	})
	client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), "p")
	})
	trial := &sandbox.Spec{Task: "t", Number: 1, Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(small(), "tmpfs", "{}")}}
	pods, err := planTrial(trial, b.planInput())
	if err != nil {
		t.Fatal(err)
	}
	s := &trialSandbox{Sandbox: guests.Sandbox{Spec: trial}, backend: b, plan: pods}
	refusal = s.apply(t.Context(), &share{})
	return asked, refusal
}

// Trials wait for room one at a time, without asking all the time; if nobody's end would make
// any, the run ends.
func TestRoom(t *testing.T) {
	type attempt = func(bool) (sandbox.Sandbox, error)
	full := func(tried *int) attempt {
		return func(bool) (sandbox.Sandbox, error) { *tried++; return nil, roomError{errors.New("full")} }
	}
	for name, test := range map[string]struct {
		busy      bool
		lifetime  sandbox.Lifetime
		within    time.Duration
		exhausted bool
	}{
		"a trial runs":       {true, sandbox.LifeOfTrial, pendingLimit, false},
		"shared servers run": {true, sandbox.LifeOfRun, quotaPatience, true},
		"nothing runs":       {false, sandbox.LifeOfTrial, quotaPatience, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := faked()
				var said []string
				b.queue.say = func(what string) { said = append(said, what) }
				if test.busy {
					b.live[&trialSandbox{Sandbox: guests.Sandbox{Spec: &sandbox.Spec{Lifetime: test.lifetime}}}] = true
				}
				began, tried := time.Now(), 0
				for range 2 {
					if _, err := b.room.openSandbox(t.Context(), b, full(&tried)); !lacksRoom(err) || errors.Is(err, sandbox.ErrEngineGone) != test.exhausted {
						t.Error(err)
					}
				}
				rounds := 2
				if test.exhausted {
					rounds = 1
				}
				took, most := time.Since(began), time.Duration(rounds)*(test.within+quotaPause)
				if took < test.within || took > most+quotaPause || tried > int(most/quotaPause)+4 || len(said) != 1 {
					t.Errorf("it took %v and %d attempts, and said %q", took, tried, said)
				}
				if test.exhausted {
					if err := b.Reconnect(t.Context()); !lacksRoom(err) {
						t.Errorf("the run goes on: %v", err)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b, _ := faked()
		tried := 0
		var free atomic.Bool
		open := func(bool) (sandbox.Sandbox, error) {
			if tried++; !free.Load() {
				return nil, roomError{errors.New("full")}
			}
			return &trialSandbox{}, nil
		}
		go func() {
			time.Sleep(time.Second)
			free.Store(true)
			b.room.closed()
		}()
		began := time.Now()
		if _, err := b.room.openSandbox(t.Context(), b, open); err != nil || time.Since(began) != time.Second || tried != 3 {
			t.Errorf("after %v and %d attempts: %v", time.Since(began), tried, err)
		}
	})
}

// A trial that a quota has no room for begins when another has ended.
func TestQuota(t *testing.T) {
	b := openIn(t, suiteProgram(t), "waza-quota")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}}
	quotas := b.client.CoreV1().ResourceQuotas(b.namespace)
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quotas.Delete(context.Background(), quota.Name, metav1.DeleteOptions{}) })
	said := make(chan string, 9)
	b.queue.say = func(what string) { said <- what }
	first := stand(t, b, "one")
	opened := make(chan error, 2)
	for range 2 {
		go func() {
			s, err := b.Open(t.Context(), trialOf(b, "one"), func(evidence.Event) {})
			if err == nil {
				err = s.Close(t.Context())
			}
			opened <- err
		}()
	}
	const want = "the ResourceQuota team of the namespace waza-quota has no room for it: requested: pods=1, used: pods=3, limited: pods=3; lower --workers, or ask for a larger quota"
	if got := <-said; !strings.Contains(got, want) {
		t.Errorf("said %q", got)
	}
	if len(opened) > 0 {
		t.Errorf("opened without room: %v", <-opened)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
	limit := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
	}}}}
	limits := b.client.CoreV1().LimitRanges(b.namespace)
	if _, err := limits.Create(t.Context(), limit, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limits.Delete(context.Background(), limit.Name, metav1.DeleteOptions{}) })
	if _, err := b.Open(t.Context(), trialOf(b), nil); err == nil || !strings.Contains(err.Error(), "a LimitRange of the namespace waza-quota does not allow it: maximum memory usage per Container is 32Mi") {
		t.Errorf("in spite of a LimitRange: %v", err)
	}
}

// Trials that each have a node for a part of their pods give it back, and are opened one after
// another: here three trials of two pods, where there is room for two pods.
func TestPartsOfTrials(t *testing.T) {
	program := suiteProgram(t)
	_, client, _, err := connect(kube.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("nodes: %v, %v", nodes, err)
	}
	node := nodes.Items[0]
	b := open(t, program, Options{
		Config:    kube.Settings{Namespace: "waza-room", NodeSelector: map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]}},
		AllowWeak: []string{probe.HostTCP},
	})
	trial := trialOf(b, "one")
	cpus := node.Status.Allocatable.Cpu().AsApproximateFloat64() * 0.4
	trial.Container(sandbox.Agent).CPUs, trial.Container("one").CPUs = cpus, cpus
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	began, opened := time.Now(), make(chan error)
	for range 3 {
		go func() {
			s, err := b.Open(ctx, trial, func(evidence.Event) {})
			if err == nil {
				err = s.Close(context.WithoutCancel(ctx))
			}
			opened <- err
		}()
	}
	for range 3 {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
	t.Logf("after %v", time.Since(began))
}
