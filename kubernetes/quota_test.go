package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const exceeded = "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4"

// A pod that the cluster does not admit is reported with what to do.
func TestRefusals(t *testing.T) {
	for why, want := range map[string]string{
		exceeded: "the ResourceQuota team of the namespace n has no room for it: requested: pods=1, used: pods=4, limited: pods=4; lower --workers, or ask for a larger quota",
		"maximum memory usage per Container is 32Mi, but limit is 64Mi":               "a LimitRange of the namespace n does not allow it: maximum memory usage per Container is 32Mi, but limit is 64Mi; change cpus and memory in the eval, or ask for other limits",
		`violates PodSecurity "restricted:latest": runAsNonRoot != true`:              `the namespace n does not allow it: violates PodSecurity "restricted:latest": runAsNonRoot != true; apply what waza doctor --on kubernetes --print --remove-interface prints`,
		`User "u" cannot create resource "pods" in API group "" in the namespace "n"`: "waza doctor --on kubernetes says what is missing",
		"a webhook of the cluster's":                                                  "a webhook of the cluster's",
	} {
		b, client := faked()
		b.images, b.config.RemoveInterface = guests.Images{Images: map[string]guests.Image{"": {Reference: "r"}}}, true
		b.users, b.lease = usersFor("r", 1000), &lease{owner: metav1.OwnerReference{UID: types.UID("u")}}
		created := 0
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			created++
			name := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Name
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New(why))
		})
		trial := &plan.Trial{Task: "t", Number: 1, Agent: plan.Agent{Container: small()}}
		pods, err := planTrial(trial, b.planInput())
		if err != nil {
			t.Fatal(err)
		}
		err = (&trialSandbox{Sandbox: guests.Sandbox{Trial: trial}, backend: b, plan: pods}).apply(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "pod ") || !strings.HasSuffix(err.Error(), want) || isQuota(err) != (why == exceeded) || created != 1 {
			t.Errorf("%q: %v", why, err)
		}
	}
}

// Trials wait for room one at a time, without asking all the time; if nobody's end would make
// any, the run ends.
func TestRoom(t *testing.T) {
	type attempt = func() (sandbox.Sandbox, error)
	full := func(tried *int) attempt {
		return func() (sandbox.Sandbox, error) { *tried++; return nil, quotaError{errors.New("full")} }
	}
	for name, test := range map[string]struct {
		busy, shared bool
		within       time.Duration
		exhausted    bool
	}{
		"a trial runs":       {true, false, pendingLimit, false},
		"shared servers run": {true, true, quotaPatience, true},
		"nothing runs":       {false, false, quotaPatience, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := faked()
				var said []string
				b.queue.say = func(what string) { said = append(said, what) }
				if test.busy {
					b.live[&trialSandbox{Sandbox: guests.Sandbox{Trial: &plan.Trial{ServersOnly: test.shared}}}] = true
				}
				began, tried := time.Now(), 0
				for range 2 {
					if _, err := b.room.open(t.Context(), b, full(&tried)); !isQuota(err) || errors.Is(err, sandbox.ErrEngineGone) != test.exhausted {
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
					if err := b.Reconnect(t.Context()); !isQuota(err) {
						t.Errorf("the run goes on: %v", err)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b, _ := faked()
		tried, used := 0, true
		open := func() (sandbox.Sandbox, error) {
			if tried++; used {
				return nil, quotaError{errors.New("full")}
			}
			return &trialSandbox{}, nil
		}
		go func() {
			time.Sleep(time.Second)
			used = false
			b.room.closed()
		}()
		began := time.Now()
		if _, err := b.room.open(t.Context(), b, open); err != nil || time.Since(began) != time.Second || tried != 3 {
			t.Errorf("after %v and %d attempts: %v", time.Since(began), tried, err)
		}
	})
}
