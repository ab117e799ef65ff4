package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// peerImage is the name of the image of servers in the evals here, which is the guest's.
const peerImage = "waza-test/peer"

// trialsOf returns trials of an agent, which makes one call and sleeps, and of two servers; and
// the backend for them.
func trialsOf(t testing.TB, count int, sleep string) (*Backend, []*plan.Trial) {
	t.Helper()
	requireCluster(t)
	waza := os.Getenv("WAZA_BIN")
	if waza == "" {
		waza = dockertest.Waza(t)
	}
	b := open(t, waza, Options{Config: kube.Settings{CPURequests: 0.02}, AllowWeak: []string{probe.HostTCP}}, dockertest.Program(t, "test/bench/peer", "peer"))
	b.images.Images[peerImage] = b.images.Images[""]
	dir := t.TempDir()
	for name, text := range map[string]string{
		"eval.yaml": fmt.Sprintf(`name: rate
config:
  trials_per_task: %d
  timeout_seconds: 120
  executor: script
  isolation: {agent: {memory: 128m}}
  mcp_servers:
    one: {image: %q, pull: never, command: /peer, args: [stdio], memory: 64m}
    two: {image: %q, pull: never, command: /peer, args: [stdio], memory: 64m}
tasks: [task.yaml]
`, count, peerImage, peerImage),
		"task.yaml": "id: t\ninputs: {prompt: x}\nscript:\n  - call: {server: one, tool: echo, arguments: {text: hello}}\n  - sleep: " + sleep + "\n  - say: done\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, tasks, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	trials, err := plan.Plan(e, tasks, plan.Choices{Run: b.run, Lookup: func(string) (string, bool) { return "", false }, Secrets: &secret.Set{}, On: eval.OnKubernetes})
	if err != nil {
		t.Fatal(err)
	}
	return b, trials
}

// runAll runs trials, and fails if one does not pass at its first attempt.
func runAll(t testing.TB, b *Backend, trials []*plan.Trial, o runner.Options) []evidence.Dir {
	t.Helper()
	o.Dir, o.Host.Secrets = t.TempDir(), &secret.Set{}
	if o.Progress == nil {
		o.Progress = func(runner.Update) {}
	}
	dirs, err := runner.RunTrials(t.Context(), b, slices.Clone(trials), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		v, err := dir.Verdicts()
		earlier, err2 := dir.Earlier()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if v.Class != evidence.ClassPass || len(earlier) > 0 {
			said, _ := os.ReadFile(filepath.Join(string(dir), "agent.stderr"))
			t.Fatalf("trial %s: %s: %s: %s; earlier: %+v", filepath.Base(string(dir)), v.Class, v.Message, said, earlier)
		}
	}
	if len(dirs) != len(trials) {
		t.Fatalf("%d of %d trials have a result", len(dirs), len(trials))
	}
	return dirs
}

// bare creates the pods of a trial, waits until all are ready, deletes them and waits until they
// are gone. Their program waits and does nothing, and nobody attaches.
func (b *Backend) bare(ctx context.Context, t *plan.Trial) error {
	pods, err := planTrial(t.Spec(), b.planInput())
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	var ready sync.WaitGroup
	ready.Add(len(pods))
	for _, p := range pods {
		group.Go(func() error {
			program := &p.pod.Spec.Containers[0]
			program.Command, program.Stdin, program.StdinOnce = []string{"/peer", "http", "127.0.0.1:8931"}, false, false
			f := b.watch.follow(p.pod.Name)
			defer f.leave()
			defer b.giveBack(p)
			_, err := b.client.CoreV1().Pods(b.namespace).Create(ctx, p.pod, metav1.CreateOptions{})
			if err == nil {
				_, _, err = f.await(ctx, func(pod *corev1.Pod, gone bool) bool {
					return gone || over(pod) || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
						return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
					})
				})
			}
			ready.Done()
			ready.Wait()
			return errors.Join(err, b.deletePod(ctx, f))
		})
	}
	return group.Wait()
}

// BenchmarkRate compares trials a minute with the pods of as many trials, bare, so many at once.
// With pods started in advance more of them exist at once than of the bare ones.
func BenchmarkRate(b *testing.B) {
	const count = 18
	backend, trials := trialsOf(b, count, "1ms")
	runAll(b, backend, trials[:1], runner.Options{Workers: 1})
	for _, atOnce := range []int{3, 6} {
		b.Run(fmt.Sprintf("at-once=%d", atOnce), func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				group, ctx := errgroup.WithContext(b.Context())
				group.SetLimit(atOnce)
				for _, t := range trials {
					group.Go(func() error { return backend.bare(ctx, t) })
				}
				if err := group.Wait(); err != nil {
					b.Fatal(err)
				}
				bare := count / time.Since(began).Minutes()
				b.ReportMetric(bare, "bare/min")
				for name, ahead := range map[string]int{"unprepared": 0, "prepared": min(atOnce, 4)} {
					began = time.Now()
					runAll(b, backend, trials, runner.Options{Workers: atOnce, Prewarm: ahead})
					rate := count / time.Since(began).Minutes()
					b.ReportMetric(rate, name+"/min")
					b.ReportMetric(rate/bare, name+"-vs-bare")
				}
			}
		})
	}
}

// startsOf returns how long each trial took from its start to its agent's.
func startsOf(t testing.TB, b *Backend, trials []*plan.Trial, ahead int) (took []time.Duration) {
	var mu sync.Mutex
	began := map[int]time.Time{}
	runAll(t, b, trials, runner.Options{Workers: 1, Prewarm: ahead, Progress: func(u runner.Update) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case u.Call != nil:
		case u.Phase == evidence.PhaseStart:
			began[u.Number] = time.Now()
		case u.Phase == evidence.PhaseAgent:
			took = append(took, time.Since(began[u.Number]))
		}
	}})
	return took[1:] // the first one's is not opened ahead
}

// BenchmarkStart measures a trial's start, with its pods started in advance and without.
func BenchmarkStart(b *testing.B) {
	backend, trials := trialsOf(b, 6, "4s")
	for _, ahead := range []int{0, 1} {
		b.Run(fmt.Sprintf("prepared=%d", ahead), func(b *testing.B) {
			for b.Loop() {
				took := startsOf(b, backend, trials, ahead)
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds(), "median-s")
				b.ReportMetric(took[len(took)-1].Seconds(), "most-s")
			}
		})
	}
}

// Pods that were started in advance serve one trial, and a trial whose pods somebody deleted
// meanwhile starts its own and says so.
func TestPreparedPods(t *testing.T) {
	counts := countAPI(t)
	b, trials := trialsOf(t, 4, "1ms")
	counts.take()
	dirs := runAll(t, b, trials, runner.Options{Workers: 1, Prewarm: 1, Progress: func(u runner.Update) {
		if u.Number == 1 && u.Phase == evidence.PhaseCollect && u.Call == nil {
			if err := b.deleteOf(t.Context(), "t/2"); err != nil {
				t.Error(err)
			}
		}
	}})
	for _, dir := range dirs {
		events, err := os.ReadFile(filepath.Join(string(dir), "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if cold := strings.Contains(string(events), `"cold_start"`); cold != (filepath.Base(string(dir)) == "2") {
			t.Errorf("%s says that it started cold: %t\n%s", dir, cold, events)
		}
	}
	asked := counts.take()
	want := 3 * (len(dirs) + 1)
	refused := asked["POST pods"] - want
	if shared := b.sharesUsers.Load() != nil; refused != 0 && !(shared && refused == 3) || asked["GET pods/attach"] != want {
		t.Errorf("asked %v; want %d pods, each attached to once, and before them 3 if nodes have no user namespaces (%t)", asked, want, shared)
	}
	if left := b.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// deleteOf deletes a pod of a trial as somebody else would, once all of its pods run, and returns
// when it is gone.
func (b *Backend) deleteOf(ctx context.Context, trial string) error {
	pods := b.client.CoreV1().Pods(b.namespace)
	var running []string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		running = nil
		all, err := pods.List(ctx, metav1.ListOptions{LabelSelector: labelRun + "=" + b.run})
		for _, pod := range all.Items {
			if pod.Annotations[annotationTrial] == trial && pod.Status.Phase == corev1.PodRunning {
				running = append(running, pod.Name)
			}
		}
		return len(running) == 3, err
	})
	if err != nil {
		return fmt.Errorf("pods of %s: %w", trial, err)
	}
	if err := pods.Delete(ctx, running[0], metav1.DeleteOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, running[0], metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
