package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// project is a directory with an eval, whose runs have a namespace of their own.
type project struct {
	*testing.T
	dir, program string
	image        string // has waza and waza-kubernetes
	cluster      kube.Settings
	client       kubernetes.Interface
	kubeconfig   string
}

func newProject(t *testing.T, namespace, evalText string, tasks ...string) *project {
	t.Helper()
	requireCluster(t)
	p := &project{T: t, dir: t.TempDir(), program: kubetest.Runner(t)}
	p.cluster = kube.Settings{Namespace: namespace, RemoveInterface: true}
	p.client = kubetest.Client(t)
	p.kubeconfig = kubetest.Allow(t, map[string]string{"namespace": namespace})
	p.install()
	version, err := exec.Command(p.program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	p.image = load(t, os.Getenv(dockertest.ExecutableEnv), p.program)
	images, _ := json.Marshal(guests.Images{
		Waza:      strings.TrimSpace(strings.TrimPrefix(string(version), "waza ")),
		FirstUser: 1 << 30, Images: map[string]guests.Image{"": {Reference: p.image}},
	})
	p.write("waza.images.json", string(images))
	p.write("eval.yaml", strings.ReplaceAll(evalText, "NAMESPACE", namespace))
	for i, task := range tasks {
		p.write(fmt.Sprintf("tasks/%d.yaml", i+1), task)
	}
	return p
}

// install creates the namespace and the policy that waza doctor prints, where they are missing.
func (p *project) install() {
	p.Helper()
	printed, err := Manifests(p.cluster)
	if err != nil {
		p.Fatal(err)
	}
	kubetest.Install(p.T, p.client, printed)
}

func (p *project) write(name, content string) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		p.Fatal(err)
	}
}

// waza is a command in the project.
func (p *project) waza(args ...string) (*exec.Cmd, *bytes.Buffer) {
	if args[0] == "run" && !slices.Contains(args, "--resume") {
		args = append(args, "eval.yaml", "--isolate", "--on", "kubernetes", "--allow-weak", "io-uring", "--allow-weak", "vsock", "--allow-weak", "memory-tcp")
	}
	c, said := exec.Command(p.program, args...), &bytes.Buffer{}
	c.Dir, c.Env = p.dir, append(os.Environ(), "HOME="+p.dir, "XDG_CACHE_HOME="+p.dir, "KUBECONFIG="+p.kubeconfig)
	c.Stdout, c.Stderr = said, said
	return c, said
}

func (p *project) run(code int, args ...string) string {
	p.Helper()
	c, said := p.waza(args...)
	_ = c.Run()
	if got := c.ProcessState.ExitCode(); got != code {
		p.Errorf("waza %q exits with %d, not %d:\n%s", args, got, code, said)
	}
	return said.String()
}

// launched is a command that runs.
type launched struct {
	*exec.Cmd
	p     *project
	said  *bytes.Buffer // to be read once it is over
	ended chan struct{}
}

func (p *project) start(args ...string) *launched {
	p.Helper()
	l := &launched{p: p, ended: make(chan struct{})}
	l.Cmd, l.said = p.waza(args...)
	if err := l.Start(); err != nil {
		p.Fatal(err)
	}
	go func() { _ = l.Wait(); close(l.ended) }()
	p.Cleanup(func() { _ = l.Process.Kill(); <-l.ended })
	return l
}

func (l *launched) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// await waits until there is a file of the pattern in the project.
func (l *launched) await(pattern string) {
	l.p.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(l.p.dir, pattern)); len(found) > 0 {
			return
		}
		if l.over() || time.Since(began) > 5*time.Minute {
			_ = l.Process.Kill()
			<-l.ended
			l.p.Fatalf("no trial has ended:\n%s", l.said)
		}
	}
}

// wait waits until the command ends with an exit code, -1 if it was killed, and returns its output.
func (l *launched) wait(code int) string {
	l.p.Helper()
	<-l.ended
	if got := l.ProcessState.ExitCode(); got != code {
		l.p.Errorf("exit code %d, not %d:\n%s", got, code, l.said)
	}
	return l.said.String()
}

// passed fails the test unless so many trials of each task passed, and every attempt before that
// was infra.
func (p *project) passed(dir string, trials int) {
	p.Helper()
	type attempt struct{ Outcome, Message string }
	var results struct {
		Tasks []struct {
			Runs []struct {
				attempt
				Earlier []attempt `json:"earlier_attempts"`
			}
		}
	}
	if err := evidence.ReadJSON(filepath.Join(p.dir, dir), "results.json", &results); err != nil {
		p.Fatal(err)
	}
	for _, task := range results.Tasks {
		for i, trial := range task.Runs {
			if trial.Outcome != "pass" || len(task.Runs) != trials {
				p.Errorf("trial %d of %d, not of %d: %+v", i+1, len(task.Runs), trials, trial.attempt)
			}
			for _, earlier := range trial.Earlier {
				p.Logf("trial %d before: %s: %s", i+1, earlier.Outcome, earlier.Message)
				if earlier.Outcome != "infra" {
					p.Errorf("trial %d has the wrong verdict %+v", i+1, earlier)
				}
			}
		}
	}
}

// left lists what is left of runs in the namespace.
func (p *project) left() (names []string) {
	p.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	pods, err := p.client.CoreV1().Pods(p.cluster.Namespace).List(ctx, all)
	leases, errLeases := p.client.CoordinationV1().Leases(p.cluster.Namespace).List(ctx, all)
	if err != nil || errLeases != nil {
		p.Fatal(err, errLeases)
	}
	for _, pod := range pods.Items {
		names = append(names, "pod "+pod.Name)
	}
	for _, lease := range leases.Items {
		names = append(names, "lease "+lease.Name)
	}
	return names
}

func (p *project) awaitNothing(within time.Duration) {
	p.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		left := p.left()
		if len(left) == 0 {
			p.Logf("nothing is left after %.0f s", time.Since(began).Seconds())
			return
		}
		if time.Since(began) > within {
			p.Errorf("left after %s: %q", within, left)
			return
		}
	}
}

// disturbedEval has trials one after another.
const disturbedEval = `
name: trials
config:
  trials_per_task: 11
  timeout_seconds: 60
  executor: script
  workers: 1
  isolation:
    agent: {cpus: 0.5, memory: 64m, disk: 16m}
    kubernetes: {namespace: NAMESPACE, cpu_requests: 0.02, remove_interface: true}
tasks: [tasks/*.yaml]
`

// Whatever is done to a cluster, and to the runner, while a trial is at work: no trial gets a wrong
// verdict, the run is completed by --resume at the latest, and nothing of it is left.
func TestDisturbed(t *testing.T) {
	kill := kubetest.Command(t, "WAZA_KUBERNETES_KILL")
	p := newProject(t, "waza-disturbed", disturbedEval, "{id: x, inputs: {prompt: x}, script: [{sleep: 4s}, {say: a}]}")
	ctx, namespace := t.Context(), p.cluster.Namespace
	pods := p.client.CoreV1().Pods(namespace)
	command := func(t *testing.T, args ...string) {
		t.Helper()
		if out, err := exec.Command(kill[0], append(kill[1:], args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	run := p.start("run", "--run-dir", "run", "--prepare", "0", "--infra-retries", "5")
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

	run = p.start("run", "--resume", "run", "--prepare", "0")
	p.agentAtWork(run, seen)
	_ = run.Process.Kill()
	run.wait(-1)
	leases := p.client.CoordinationV1().Leases(namespace)
	found, err := leases.List(ctx, metav1.ListOptions{LabelSelector: labelRun})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("leases: %v, %v", found, err)
	}
	if said := p.run(2, "run", "--resume", "run"); !strings.Contains(said, "renewed its lease less than") {
		t.Errorf("a lease that is young is taken over:\n%s", said)
	}
	makeOld(t, leases, found.Items[0].Name)
	p.run(0, "gc", "--on", "kubernetes", "--namespace", namespace)
	p.awaitNothing(time.Minute)
	t.Log(p.run(0, "run", "--resume", "run"))
	p.passed("run", 11)
	p.awaitNothing(time.Minute)
}

// agentAtWork waits until the pod of an agent, another than the one seen, has run for a second.
func (p *project) agentAtWork(run *launched, seen string) *corev1.Pod {
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
func (p *project) preempt(t *testing.T, node string) error {
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
