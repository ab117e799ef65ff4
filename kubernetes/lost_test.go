package kubernetes

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
						b.watch.take(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, true)
					}
					return true, nil, nil
				})
				client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, &runtime.Unknown{}, test.answer
				})
				go func() {
					time.Sleep(30 * time.Second)
					b.watch.take(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, true)
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
