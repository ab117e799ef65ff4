package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// Examples have the same results, calls and messages on the cluster as on Docker. The images are
// saved from the engine, as a user would.
func TestExamples(t *testing.T) {
	requireCluster(t)
	docker := os.Getenv(dockertest.ExecutableEnv)
	cluster := kubetest.Runner(t)
	config := kube.Settings{Namespace: "waza-examples", RemoveInterface: true}
	manifests, err := Manifests(config)
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Install(t, kubetest.Client(t), manifests)
	kubeconfig := kubetest.Allow(t, map[string]string{"namespace": config.Namespace})
	home := t.TempDir() // with the certificates of both sandboxes
	for name, exit := range map[string]int{"mcp-eval": 0, "llm": 0, "narration": 1} {
		t.Run(name, func(t *testing.T) {
			dockertest.Image(t, "waza-examples/inventory")
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../examples/"+name)); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "eval.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			settings := "\n  isolation:\n    kubernetes: {namespace: waza-examples, cpu_requests: 0.02, remove_interface: true}\n"
			changed := strings.Replace(string(text), "\nconfig:\n", "\nconfig:"+settings, 1)
			if err := os.WriteFile(filepath.Join(dir, "eval.yaml"), []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			waza := func(exit int, program string, args ...string) {
				c := exec.Command(program, args...)
				c.Dir, c.Env = dir, append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "KUBECONFIG="+kubeconfig)
				if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() != exit {
					t.Fatalf("waza %q: %v\n%s", args, err, out)
				}
			}
			waza(0, docker, "images", "save", "images.tar", "eval.yaml")
			kubetest.Load(t, filepath.Join(dir, "images.tar"))
			waza(exit, docker, "run", "--isolate", "--run-dir", "docker", "eval.yaml")
			waza(exit, cluster, "run", "--isolate", "--on", "kubernetes", "--allow-weak", "io-uring", "--allow-weak", "vsock", "--allow-weak", "memory-tcp", "--run-dir", "cluster", "eval.yaml")
			if diff := cmp.Diff(comparable(t, filepath.Join(dir, "docker")), comparable(t, filepath.Join(dir, "cluster"))); diff != "" {
				t.Errorf("the run differs on the cluster (-Docker +cluster):\n%s", diff)
			}
		})
	}
}

// comparable returns the results of a run, and the messages by trial, server and direction.
func comparable(t *testing.T, run string) map[string][]string {
	t.Helper()
	lines := map[string][]string{"results.json": strings.Split(resultsOf(t, run), "\n")}
	trials, err := filepath.Glob(filepath.Join(run, "trials", "*", "*"))
	if err != nil || len(trials) == 0 {
		t.Fatalf("trials of %s: %v", run, err)
	}
	for _, trial := range trials {
		name := strings.TrimPrefix(trial, run)
		for frame, err := range evidence.Dir(trial).Frames() {
			if err != nil {
				t.Fatal(err)
			}
			stream := fmt.Sprint(name, " ", frame.Server, " ", frame.Dir)
			lines[stream] = append(lines[stream], string(frame.Raw))
		}
	}
	return lines
}

// resultsOf returns results.json of a run without times, ids and weaknesses of its sandbox, of which
// some depend on load.
func resultsOf(t *testing.T, run string) string {
	t.Helper()
	var all any
	if err := evidence.ReadJSON(run, "results.json", &all); err != nil {
		t.Fatal(err)
	}
	withoutTimes(all)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func withoutTimes(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if strings.Contains(key, "_ms") || strings.Contains(key, "duration") || strings.Contains(key, "latency") || slices.Contains([]string{"timestamp", "time", "eval_id", "p50", "p95", "cpu_seconds", "memory_peak", "weak"}, key) {
				delete(v, key)
				continue
			}
			withoutTimes(value)
		}
	case []any:
		for _, value := range v {
			withoutTimes(value)
		}
	}
}
