package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// kubeconfig is a configuration of two contexts, of which only the current one, team, has settings
// of pods.
const kubeconfig = `
apiVersion: v1
kind: Config
current-context: team
contexts:
- name: team
  context: {cluster: c, user: u, namespace: other, extensions: [{name: waza, extension: SETTINGS}]}
- name: production
  context: {cluster: p, user: admin}
clusters: []
users: []
`

func useKubeconfig(t *testing.T, settings string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(strings.Replace(kubeconfig, "SETTINGS", settings, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

// An eval chooses nothing about where its pods run that the user's kubeconfig does not have.
func TestEvalsChooseNothing(t *testing.T) {
	const settings = `{namespace: waza-team, runtime_class: gvisor, node_selector: {pool: evals, zone: a}, tolerations: [{key: evals, operator: Exists, effect: NoSchedule}]}`
	evals := kube.Toleration{Key: "evals", Operator: "Exists", Effect: "NoSchedule"}
	for _, test := range []struct {
		settings string
		asks     kube.Settings
		refused  string // key
	}{
		{settings, kube.Settings{}, ""},
		{settings, kube.Settings{Context: "team", Namespace: "waza-team", RuntimeClass: "gvisor", NodeSelector: map[string]string{"pool": "evals"}, Tolerations: []kube.Toleration{evals}, CPURequests: 0.5, RemoveInterface: true}, ""},
		{"{}", kube.Settings{Namespace: "waza"}, ""},
		{"{}", kube.Settings{Context: "production"}, "context"},
		{settings, kube.Settings{Context: "production"}, "context"},
		{settings, kube.Settings{Namespace: "kube-system"}, "namespace"},
		{settings, kube.Settings{Namespace: "waza"}, "namespace"},
		{"{}", kube.Settings{Namespace: "other"}, "namespace"},
		{"{}", kube.Settings{RuntimeClass: "gvisor"}, "runtime_class"},
		{settings, kube.Settings{RuntimeClass: "runc"}, "runtime_class"},
		{settings, kube.Settings{NodeSelector: map[string]string{"node-role.kubernetes.io/control-plane": ""}}, "node_selector"},
		{settings, kube.Settings{NodeSelector: map[string]string{"pool": "gpu"}}, "node_selector"},
		{"{}", kube.Settings{Tolerations: []kube.Toleration{{Operator: "Exists"}}}, "tolerations"},
		{settings, kube.Settings{Tolerations: []kube.Toleration{evals, {Operator: "Exists"}}}, "tolerations"},
		{settings, kube.Settings{Tolerations: []kube.Toleration{{Key: "evals", Operator: "Exists"}}}, "tolerations"},
	} {
		useKubeconfig(t, test.settings)
		own, from, err := Own(test.asks.Context)
		if err != nil {
			t.Fatal(err)
		}
		got, err := test.asks.Settle(own, from)
		if test.refused != "" {
			if err == nil || !strings.HasPrefix(err.Error(), "config.isolation.kubernetes."+test.refused+" asks for what the extension waza of the context ") {
				t.Errorf("%+v: %v, want a refusal of %s", test.asks, err, test.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", test.asks, err)
		}
		want := `{"namespace":"waza"}`
		if test.settings == settings {
			want = `{"namespace":"waza-team","node_selector":{"pool":"evals","zone":"a"},"tolerations":[{"key":"evals","operator":"Exists","effect":"NoSchedule"}],"runtime_class":"gvisor"}`
		}
		got.Context, got.CPURequests, got.RemoveInterface = "", 0, false
		if text, _ := json.Marshal(got); string(text) != want {
			t.Errorf("%+v: pods get %s, want %s", test.asks, text, want)
		}
	}
}

// Settings that cannot be followed are refused, with their place.
func TestOwnMistakes(t *testing.T) {
	for settings, want := range map[string]string{
		`{tolerations: all}`:       "tolerations must be a list",
		`{toleration: []}`:         `unknown key "toleration"`,
		`{context: production}`:    "context is for evals",
		`{images: x}`:              "images is for evals",
		`{remove_interface: true}`: "remove_interface is for evals",
		`[1]`:                      "must be a mapping",
		`"yes"`:                    "must be a mapping",
	} {
		useKubeconfig(t, settings)
		if _, _, err := Own(""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `the extension waza of the context "team" of your kubeconfig`) {
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
}

// A stranger's eval does not get pods onto a node of the control plane, unless the user's kubeconfig
// allows just that.
func TestControlPlane(t *testing.T) {
	requireCluster(t)
	config := kube.Settings{Namespace: "waza-plane"}
	client := kubetest.Client(t)
	manifests, err := Manifests(config)
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Install(t, client, manifests)
	plane := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "waza-test-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": "", corev1.LabelHostname: "waza-test-plane"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
	plane.Status = corev1.NodeStatus{Capacity: room, Allocatable: room}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), plane, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropNode(t, client, config.Namespace, plane.Name) })
	dir, program := t.TempDir(), kubetest.Runner(t)
	version, err := exec.Command(program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	image := load(t, os.Getenv(dockertest.ExecutableEnv))
	images, _ := json.Marshal(guests.Images{Waza: strings.TrimSpace(strings.TrimPrefix(string(version), "waza ")), FirstUser: 1 << 30, Images: map[string]guests.Image{"": {Reference: image}}})
	for name, content := range map[string]string{
		"eval.yaml": `
name: stranger
config:
  executor: script
  isolation:
    agent: {cpus: 0.1, memory: 32m, disk: 8m}
    kubernetes:
      namespace: waza-plane
      node_selector: {node-role.kubernetes.io/control-plane: ""}
      tolerations: [{operator: Exists}]
tasks: [t.yaml]
`, "t.yaml": "{id: a, inputs: {prompt: x}, script: [{say: a}]}", "waza.images.json": string(images),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(allowed map[string]any) (*exec.Cmd, *bytes.Buffer) {
		c, said := exec.Command(program, "run", "--isolate", "--on", "kubernetes", "--infra-retries", "0", "--allow-weak", "host-tcp", "eval.yaml"), &bytes.Buffer{}
		c.Dir, c.Stdout, c.Stderr = dir, said, said
		c.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir, "KUBECONFIG="+kubetest.Allow(t, allowed))
		return c, said
	}
	c, said := run(map[string]any{"namespace": config.Namespace})
	if err := c.Run(); c.ProcessState.ExitCode() != 2 || !strings.Contains(said.String(), "config.isolation.kubernetes.node_selector asks for what the extension waza of the context") {
		t.Errorf("a stranger's eval: %v\n%s", err, said)
	}
	if at := podsOn(t, client, config.Namespace, plane.Name); at != 0 {
		t.Errorf("%d pods of a stranger's eval are on a node of the control plane", at)
	}
	c, said = run(map[string]any{"namespace": config.Namespace, "node_selector": plane.Labels, "tolerations": []kube.Toleration{{Operator: "Exists"}}})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for began := time.Now(); podsOn(t, client, config.Namespace, plane.Name) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Errorf("with the user's word, no pod is on that node")
			break
		}
	}
	_ = c.Process.Signal(os.Interrupt)
	dropNode(t, client, config.Namespace, plane.Name) // no kubelet is there to end its pods
	if err := <-ended; t.Failed() {
		t.Logf("%v\n%s", err, said)
	}
}

func podsOn(t *testing.T, client kubernetes.Interface, namespace, node string) int {
	t.Helper()
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	return len(pods.Items)
}

// dropNode deletes a node that no kubelet has, and what is on it.
func dropNode(t *testing.T, client kubernetes.Interface, namespace, node string) {
	t.Helper()
	ctx, atOnce := context.Background(), int64(0)
	_ = client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	_ = client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &atOnce}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
}
