package kubernetes

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/internal/kubetest"
)

// Whatever is done to a cluster, and to the runner, while a trial is at work: no trial gets a wrong
// verdict, the run is completed by --resume at the latest, and nothing of it is left.
func TestDisturbed(t *testing.T) {
	kill := kubetest.Command(t, "WAZA_KUBERNETES_KILL")
	p := newShardsProject(t, "waza-disturbed", evalOfTrials(11), "{id: x, inputs: {prompt: x}, script: [{sleep: 4s}, {say: a}]}")
	ctx, namespace := t.Context(), p.cluster.Namespace
	pods := p.client.CoreV1().Pods(namespace)
	command := func(t *testing.T, args ...string) {
		t.Helper()
		if out, err := exec.Command(kill[0], append(kill[1:], args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	run := p.start("", "run", "--run-dir", "run", "--prepare", "0", "--infra-retries", "5")
	run.await("run/trials/x/1/trial.json")
	seen := ""
	for _, step := range []struct {
		name    string
		disturb func(t *testing.T, agent *corev1.Pod) error
	}{
		{"pod deleted", func(_ *testing.T, agent *corev1.Pod) error {
			return pods.Delete(ctx, agent.Name, metav1.DeleteOptions{})
		}},
		{"pod evicted", func(_ *testing.T, agent *corev1.Pod) error {
			return p.client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: agent.ObjectMeta})
		}},
		{"pod preempted", func(t *testing.T, agent *corev1.Pod) error { return p.preempt(t, agent.Spec.NodeName) }},
		{"kubelet killed", func(t *testing.T, agent *corev1.Pod) error { command(t, agent.Spec.NodeName, "kubelet"); return nil }},
		{"API server killed", func(t *testing.T, _ *corev1.Pod) error { command(t, "control", "kube-apiserver"); return nil }},
		{"node deleted", func(t *testing.T, agent *corev1.Pod) error {
			node := agent.Spec.NodeName
			// A kubelet that starts registers its node.
			t.Cleanup(func() { p.agentAtWork(run, agent.Name); command(t, node, "kubelet") })
			return p.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
		}},
		{"policy removed", func(_ *testing.T, _ *corev1.Pod) error {
			return p.client.NetworkingV1().NetworkPolicies(namespace).Delete(ctx, policyName, metav1.DeleteOptions{})
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			agent := p.agentAtWork(run, seen)
			seen = agent.Name
			if err := step.disturb(t, agent); err != nil {
				t.Error(err)
			}
		})
	}
	if said := run.wait(3); !strings.Contains(said, "does not close the network") || !strings.Contains(said, "--resume run") {
		t.Errorf("without its policy:\n%s", said)
	}
	p.install()

	run = p.start("", "run", "--resume", "run", "--prepare", "0")
	p.agentAtWork(run, seen)
	_ = run.Process.Kill()
	run.wait(-1)
	leases := p.client.CoordinationV1().Leases(namespace)
	found, err := leases.List(ctx, metav1.ListOptions{LabelSelector: labelRun})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("leases: %v, %v", found, err)
	}
	if said := p.run("", 2, "run", "--resume", "run"); !strings.Contains(said, "renewed its lease less than") {
		t.Errorf("a lease that is young is taken over:\n%s", said)
	}
	makeOld(t, leases, found.Items[0].Name)
	p.run("", 0, "gc", "--on", "kubernetes", "--namespace", namespace)
	p.awaitNothing(time.Minute)
	t.Log(p.run("", 0, "run", "--resume", "run"))
	p.passed("run", 11)
	p.awaitNothing(time.Minute)
}

// agentAtWork waits until the pod of an agent, another than the one seen, has run for a second.
func (p *shardsProject) agentAtWork(run *launched, seen string) *corev1.Pod {
	p.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(200 * time.Millisecond) {
		if run.over() {
			p.Fatalf("the run ended:\n%s", run.said)
		}
		// An API server that was killed does not answer.
		found, err := p.client.CoreV1().Pods(p.cluster.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: labelRole + "=agent"})
		if err != nil {
			continue
		}
		for _, pod := range found.Items {
			status := statusOf(&pod)
			if pod.Name != seen && pod.DeletionTimestamp == nil && status != nil && status.State.Running != nil && time.Since(status.State.Running.StartedAt.Time) > time.Second {
				return &pod
			}
		}
	}
	_ = run.Process.Kill()
	p.Fatalf("no agent is at work:\n%s", run.said)
	return nil
}

// preempt has a pod of a higher priority take all of a node's processors.
func (p *shardsProject) preempt(t *testing.T, node string) error {
	ctx := p.Context()
	found, err := p.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	all := found.Status.Allocatable.Cpu().DeepCopy()
	all.Sub(resource.MustParse("5m"))
	classes := p.client.SchedulingV1().PriorityClasses()
	class, err := classes.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "waza-test-"}, Value: 1000}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}) })
	pods := p.client.CoreV1().Pods(p.cluster.Namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "first-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: class.Name, NodeSelector: map[string]string{corev1.LabelHostname: node},
			Containers: []corev1.Container{{
				Name: "c", Image: p.image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/" + filepath.Base(p.program), "version"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: all}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for began := time.Now(); pod.Spec.NodeName == "" && time.Since(began) < time.Minute; time.Sleep(200 * time.Millisecond) {
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName == "" {
		t.Error("the pod of a higher priority gets no room")
	}
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
}
