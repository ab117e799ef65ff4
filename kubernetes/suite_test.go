package kubernetes

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/sandboxtest"
)

func requireCluster(t testing.TB) { t.Helper(); kubetest.Require(t) }

func load(t testing.TB, program string, others ...string) string {
	t.Helper()
	return kubetest.Image(t, program, others...)
}

// open opens a backend whose pods hold a static program as guest, in a namespace with the policy.
func open(t testing.TB, program string, o Options, others ...string) *Backend {
	t.Helper()
	requireCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := install(ctx, o.Config); err != nil {
		t.Fatal(err)
	}
	o.Run = "t-" + strings.ToLower(rand.Text())[:10]
	o.Images = guests.Images{FirstUser: 1 << 30, Images: map[string]guests.Image{"": {Reference: load(t, program, others...)}}}
	o.Say = func(what string) { t.Log(what) }
	b, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// left lists the pods of a run.
func (b *Backend) left(t *testing.T) (names []string) {
	t.Helper()
	pods, err := b.client.CoreV1().Pods(b.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: labelRun + "=" + b.run})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T, program string) sandboxtest.Opened {
		b := open(t, program, Options{Config: kube.Settings{CPURequests: 0.02}, AllowWeak: []string{probe.HostTCP}})
		return sandboxtest.Opened{
			Backend: b, Name: "kubernetes",
			Spec:      sandbox.Spec{Run: b.run, Network: sandbox.NetworkAirtight},
			Container: sandbox.Container{CPUs: 0.5, Memory: 64 << 20, Disk: 16 << 20, Pids: 64},
			Left:      b.left,
		}
	})
}

// install creates the namespace and its policy where they are missing.
func install(ctx context.Context, c kube.Settings) error {
	_, client, namespace, err := connect(c)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespaceOf(c), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if _, err := client.NetworkingV1().NetworkPolicies(namespace).Create(ctx, denyAll(namespace), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
