package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const killedEval = `
name: killed
config:
  trials_per_task: 8
  timeout_seconds: 60
  executor: script
  isolation:
    agent: {cpus: 0.5, memory: 64m, disk: 16m}
    kubernetes: {namespace: waza-killed, cpu_requests: 0.02, remove_interface: true, node_selector: {kubernetes.io/hostname: NODE}}
tasks: [task.yaml]
`

// A run whose runner was killed leaves no pod running, and is completed by --resume.
func TestRunnerIsKilled(t *testing.T) {
	requireCluster(t)
	guest := os.Getenv(dockertest.ExecutableEnv)
	if guest == "" {
		t.Skip("WAZA_BIN is not set to waza, which scripts/build builds with waza-kubernetes")
	}
	t.Parallel()
	cluster := eval.Kubernetes{Namespace: "waza-killed", RemoveInterface: true}
	if err := install(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	_, client, namespace, err := connect(cluster)
	if err != nil {
		t.Fatal(err)
	}
	pods, leases := client.CoreV1().Pods(namespace), client.CoordinationV1().Leases(namespace)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	waza := func(args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(filepath.Dir(guest), "waza-kubernetes"), args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir)
		return c
	}
	version, err := waza("version").Output()
	if err != nil {
		t.Fatal(err)
	}
	images, _ := json.Marshal(guests.Images{
		Waza:      strings.TrimSpace(strings.TrimPrefix(string(version), "waza ")),
		FirstUser: 1 << 30, Images: map[string]guests.Image{"": {Reference: load(t, guest)}},
	})
	for name, content := range map[string]string{
		"eval.yaml":        strings.ReplaceAll(killedEval, "NODE", nodes.Items[0].Name),
		"task.yaml":        "{id: x, inputs: {prompt: x}, script: [{say: a}]}",
		"waza.images.json": string(images),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	run := waza("run", "eval.yaml", "--isolate", "--on", "kubernetes", "--run-dir", "run", "--workers", "2",
		"--allow-weak", "io-uring", "--allow-weak", "vsock", "--allow-weak", "memory-tcp")
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	for limit := time.After(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if done, _ := filepath.Glob(filepath.Join(dir, "run/trials/x/*/verdicts.json")); len(done) > 1 {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the run ended: %v\n%s", err, &said)
		case <-limit:
			_ = run.Process.Kill()
			t.Fatalf("no trial has ended\n%s", &said)
		default:
		}
	}
	_ = run.Process.Kill()
	<-ended
	found, err := leases.List(t.Context(), metav1.ListOptions{LabelSelector: labelRun})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("leases: %v, %v", found, err)
	}
	if out, err := waza("run", "--resume", "run").CombinedOutput(); err == nil || !strings.Contains(string(out), "renewed its lease less than") {
		t.Errorf("a lease that is young is taken over: %v\n%s", err, out)
	}
	makeOld(t, leases, found.Items[0].Name)
	if out, err := waza("run", "--resume", "run").CombinedOutput(); err != nil {
		t.Errorf("resume: %v\n%s", err, out)
	}
	var results struct {
		Tasks []struct{ Runs []struct{ Status string } }
	}
	if err := evidence.ReadJSON(filepath.Join(dir, "run"), "results.json", &results); err != nil {
		t.Fatal(err)
	}
	for _, task := range results.Tasks {
		for i, trial := range task.Runs {
			if trial.Status != "passed" || len(task.Runs) != 8 {
				t.Errorf("trial %d of %d %s", i+1, len(task.Runs), trial.Status)
			}
		}
	}
	left, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
	if found, err = leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(found.Items) > 0 {
		t.Errorf("%d leases are left, %v", len(found.Items), err)
	}
}
