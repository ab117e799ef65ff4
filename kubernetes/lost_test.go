package kubernetes

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// faked returns a backend whose API is a fake.
func faked() (*Backend, *fake.Clientset) {
	client := fake.NewClientset()
	return &Backend{client: client, namespace: "n", watch: &watch{pods: map[string]*followed{}}, queue: newQueue(func(string) {}), room: newRoom(), policy: &policy{}, live: map[*trialSandbox]bool{}}, client
}

// A pod whose node is lost is deleted at once; one whose node answers is waited for.
func TestDeletePodOfLostNode(t *testing.T) {
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
	}
	for name, test := range map[string]struct {
		answer error
		forced bool
	}{
		"no route to it":       {status(http.StatusInternalServerError), true},
		"it is silent":         {context.DeadlineExceeded, true},
		"it has ended the pod": {status(http.StatusNotFound), false},
		"it still runs it":     {nil, false},
		"nobody may ask it":    {status(http.StatusForbidden), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client := faked()
				f := b.watch.follow("p")
				forced := false
				client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if grace := a.(clienttesting.DeleteActionImpl).DeleteOptions.GracePeriodSeconds; grace != nil && *grace == 0 {
						forced = true
						b.watch.handlePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, true)
					}
					return true, nil, nil
				})
				client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, &runtime.Unknown{}, test.answer
				})
				go func() {
					time.Sleep(30 * time.Second)
					b.watch.handlePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, true)
				}()
				began := time.Now()
				if err := b.deletePod(t.Context(), f); err != nil || forced != test.forced {
					t.Errorf("forced: %t, want %t; %v", forced, test.forced, err)
				}
				if took := time.Since(began); (took < 10*time.Second) != test.forced {
					t.Errorf("it took %v", took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// Pods of a node that is cut off are given up in bounded time, by their run and by gc, and nothing
// is left of them.
func TestLostNode(t *testing.T) {
	program := suiteProgram(t)
	link := strings.Fields(os.Getenv("WAZA_KUBERNETES_LINK"))
	if len(link) == 0 {
		t.Skip("WAZA_KUBERNETES_LINK is not set to a command that takes NODE up|down, as scripts/cluster says")
	}
	t.Parallel()
	const node = "node2"
	there := Options{Config: kube.Settings{CPURequests: 0.02, NodeSelector: map[string]string{corev1.LabelHostname: node}}, AllowWeak: []string{probe.HostTCP}}
	b, dead := open(t, program, there), open(t, program, there)
	s, _ := stand(t, b, "one"), stand(t, dead)
	expire(t, dead)
	plug := func(state string) {
		if out, err := exec.Command(link[0], append(link[1:], node, state)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	plug("down")
	cut := time.Now()
	t.Cleanup(func() { plug("up") })
	var all sync.WaitGroup
	all.Go(func() { // before the cluster knows that the node is lost
		_, err := b.Open(t.Context(), trialOf(b), func(evidence.Event) {})
		if err == nil || !strings.Contains(err.Error(), "because of a taint of its node") {
			t.Errorf("a pod is started there: %v", err)
		}
		t.Logf("a pod that cannot be started is given up after %v", time.Since(cut))
	})
	all.Go(func() {
		if g, err := GC(t.Context(), dead.config); err != nil || !slices.Contains(g.Runs, dead.run) {
			t.Errorf("a dead run: %+v, %v", g, err)
		}
		t.Logf("gc ends after %v", time.Since(cut))
	})
	for _, container := range []string{sandbox.Agent, "one"} {
		if exit := gone(t, s, container); exit.Cause != sandbox.ByEngine || !strings.Contains(exit.Message, "node") {
			t.Errorf("%s ended: %+v", container, exit)
		}
	}
	t.Logf("pods are known to be lost after %v", time.Since(cut))
	began := time.Now()
	if err := s.Close(t.Context()); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("closed after %v: %v", time.Since(began), err)
	}
	t.Logf("closed after %v more", time.Since(began))
	all.Wait()
	if left := append(b.left(t), dead.left(t)...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
