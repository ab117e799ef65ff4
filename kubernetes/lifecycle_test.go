package kubernetes

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

func suiteProgram(t *testing.T) string {
	t.Helper()
	requireCluster(t)
	return dockertest.Program(t, "sandbox/sandboxtest/testdata/program", "program")
}

func small() sandbox.Container {
	return sandbox.Container{CPUs: 0.5, Memory: 64 << 20, Disk: 16 << 20, Pids: 64}
}

// trialOf returns a sandbox of an agent and servers.
func trialOf(b *Backend, servers ...string) *sandbox.Spec {
	trial := &sandbox.Spec{
		Run: b.run, Task: "t", Number: 1, Network: sandbox.NetworkAirtight,
		Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(small(), "tmpfs", "{}")},
	}
	for _, name := range servers {
		addServer(trial, name, small())
	}
	return trial
}

// addServer adds a server, which the agent reaches by its name.
func addServer(t *sandbox.Spec, name string, c sandbox.Container) {
	t.Containers = append(t.Containers, sandbox.ContainerSpec{Container: c, Name: name, Role: sandbox.RoleServer})
	t.Reach = append(t.Reach, sandbox.Edge{From: sandbox.Agent, Name: name, To: name})
}

// stand opens a sandbox of an agent and servers.
func stand(t *testing.T, b *Backend, servers ...string) sandbox.Sandbox {
	t.Helper()
	s, err := b.Open(t.Context(), trialOf(b, servers...), func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// gone waits until a container is gone, and returns how it ended.
func gone(t *testing.T, s sandbox.Sandbox, container string) sandbox.Exit {
	t.Helper()
	select {
	case <-s.Gone(container):
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is not gone", container)
	}
	return s.Ended(t.Context(), container)
}

// Without its policy nothing goes on: what runs is ended, and nothing is opened any more.
func TestPolicyIsRemoved(t *testing.T) {
	program := suiteProgram(t)
	for name, open := range map[string]struct {
		change func(context.Context, *Backend) error
	}{
		"deleted": {func(ctx context.Context, b *Backend) error {
			return b.client.NetworkingV1().NetworkPolicies(b.namespace).Delete(ctx, policyName, metav1.DeleteOptions{})
		}},
		"another allows": {func(ctx context.Context, b *Backend) error {
			allows := denyAll(b.namespace)
			allows.Name, allows.Spec.Egress = "allows", []networkingv1.NetworkPolicyEgressRule{{}}
			_, err := b.client.NetworkingV1().NetworkPolicies(b.namespace).Create(ctx, allows, metav1.CreateOptions{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := openIn(t, program, "waza-policy-"+strings.Fields(name)[0])
			t.Cleanup(func() {
				_ = b.client.NetworkingV1().NetworkPolicies(b.namespace).Delete(context.Background(), "allows", metav1.DeleteOptions{})
			})
			s := stand(t, b, "one")
			if err := open.change(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for _, container := range []string{sandbox.Agent, "one"} {
				if exit := gone(t, s, container); !exit.Foreign() || !strings.Contains(exit.Message, "network was opened") {
					t.Errorf("%s ended: %+v", container, exit)
				}
			}
			if _, err := b.Open(t.Context(), &sandbox.Spec{Network: sandbox.NetworkAirtight}, nil); !errors.Is(err, sandbox.ErrEngineGone) {
				t.Errorf("a sandbox is opened: %v", err)
			}
			if err := b.Reconnect(t.Context()); err == nil || !strings.Contains(err.Error(), "does not close the network") {
				t.Errorf("it reconnects: %v", err)
			}
		})
	}
}

func openIn(t *testing.T, program, namespace string) *Backend {
	t.Helper()
	return open(t, program, Options{Config: kube.Settings{Namespace: namespace, CPURequests: 0.02}, AllowWeak: []string{probe.HostTCP}})
}

// Who ended a pod decides whose fault it is.
func TestWhoEndedIt(t *testing.T) {
	b := openIn(t, suiteProgram(t), "")
	s := stand(t, b, "one", "two").(*trialSandbox)
	if err := b.client.CoreV1().Pods(b.namespace).Delete(t.Context(), s.pods["one"].plan.pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if exit := gone(t, s, "one"); exit.Cause != sandbox.FromOutside || !strings.Contains(exit.Message, "deleted") {
		t.Errorf("a pod that somebody deleted: %+v", exit)
	}
	evicted := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: s.pods["two"].plan.pod.Name, Namespace: b.namespace}}
	if err := b.client.PolicyV1().Evictions(b.namespace).Evict(t.Context(), evicted); err != nil {
		t.Fatal(err)
	}
	if exit := gone(t, s, "two"); exit.Cause != sandbox.FromOutside || !strings.Contains(exit.Message, "evicted through the cluster's API") {
		t.Errorf("a pod that was evicted: %+v", exit)
	}
	if exit := s.Ended(t.Context(), sandbox.Agent); exit != (sandbox.Exit{}) {
		t.Errorf("the other ended too: %+v", exit)
	}
	_ = s.pods[sandbox.Agent].pipe.Close()
	if exit := gone(t, s, sandbox.Agent); exit.Cause != sandbox.ByEngine {
		t.Errorf("a pod whose connection broke: %+v", exit)
	}
	pod, _, err := s.pods[sandbox.Agent].followed.await(t.Context(), func(pod *corev1.Pod, gone bool) bool { return gone || over(pod) })
	if err != nil || pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("its guest does not end with it: %v, %s", err, describe(pod))
	}
}

// A live run is neither resumed nor removed; of a dead one nothing stays.
func TestAliveAndGarbage(t *testing.T) {
	b := openIn(t, suiteProgram(t), "waza-garbage")
	s := stand(t, b, "one").(*trialSandbox)
	g, err := GC(t.Context(), b.config)
	if err != nil || !slices.Contains(g.Live, b.run) || slices.Contains(g.Runs, b.run) {
		t.Fatalf("a live run: %+v, %v", g, err)
	}
	if _, err := Open(t.Context(), Options{Run: b.run, Resume: true, Config: b.config, Images: b.images}); !errors.Is(err, sandbox.ErrAlive) {
		t.Errorf("a live run is resumed: %v", err)
	}
	expire(t, b)
	if g, err = GC(t.Context(), b.config); err != nil || !slices.Contains(g.Runs, b.run) {
		t.Errorf("a dead run: %+v, %v", g, err)
	}
	if left := b.left(t); len(left) > 0 {
		t.Errorf("left of a dead run: %q", left)
	}
	if exit := gone(t, s, "one"); exit.Cause != sandbox.FromOutside {
		t.Errorf("its pods: %+v", exit)
	}
}

// expire makes the lease of a run that of a dead one.
func expire(t *testing.T, b *Backend) {
	t.Helper()
	b.lease.stop()
	b.lease.ended.Wait()
	makeOld(t, b.lease.client, b.lease.name)
}

func makeOld(t *testing.T, leases coordinationclient.LeaseInterface, name string) {
	t.Helper()
	old := time.Now().Add(-2 * leaseSeconds * time.Second).UTC().Format(metav1.RFC3339Micro)
	if _, err := leases.Patch(t.Context(), name, mergePatch, []byte(`{"spec":{"renewTime":"`+old+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// What a pod without an interface may not do, no pod can; what the policy leaves open is found.
func TestCertificate(t *testing.T) {
	requireCluster(t)
	waza := os.Getenv("WAZA_BIN")
	if waza == "" {
		waza = dockertest.Waza(t)
	}
	network := []string{
		probe.HostTCP, "host-udp", "host-ipv6", "bridge-tcp", "device-tcp", "device-udp", "neighbour", "other-server",
		"external", "metadata", "dns-foreign", "dns-engine", "dns-host", "engine-tcp", "raw-socket", "packet-socket", "ping", "planted-secret",
	}
	for _, remove := range []bool{true, false} {
		b := open(t, waza, Options{Config: kube.Settings{Namespace: map[bool]string{true: "waza-removed", false: ""}[remove], RemoveInterface: remove}})
		c, err := selftest.Probe(t.Context(), b, b.run, evidence.SandboxKind{Network: "airtight", Workspace: "tmpfs"})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Attacks {
			t.Logf("remove_interface %t: %s %s: %s", remove, a.Result, a.Name, a.Detail)
			if remove && a.Result == evidence.AttackGotOut && slices.Contains(network, a.Name) {
				t.Errorf("%s got out: %s", a.Name, a.Detail)
			}
			if !remove && a.Result == evidence.AttackGotOut && slices.Contains([]string{"neighbour", "other-server", "external", "metadata", "planted-secret"}, a.Name) {
				t.Errorf("%s got out in spite of the policy: %s", a.Name, a.Detail)
			}
			// The namespace is restricted: nothing of ours is on the node's network, which is no proof.
			if !remove && a.Name == probe.HostTCP && (a.Result != evidence.AttackNotTried || !strings.Contains(a.Detail, "violates PodSecurity")) {
				t.Errorf("%s: %s: %s", a.Name, a.Result, a.Detail)
			}
		}
	}
}
