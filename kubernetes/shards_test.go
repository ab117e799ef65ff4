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
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// shardsProject is a directory with an eval, in a namespace of its own to which what
// waza doctor --shards --print prints was applied, and a user who has the role waza-launcher alone.
type shardsProject struct {
	*testing.T
	dir, program string
	image        string // has waza, waza-kubernetes, and the examples' server
	cluster      eval.Kubernetes
	client       kubernetes.Interface
	launcher     string // path of the user's kubeconfig
}

func newShardsProject(t *testing.T, namespace, evalText string, tasks ...string) *shardsProject {
	t.Helper()
	requireCluster(t)
	p := &shardsProject{T: t, dir: t.TempDir(), program: kubetest.Runner(t)}
	p.cluster = eval.Kubernetes{Namespace: namespace, RemoveInterface: true}
	config, client, _, err := connect(p.cluster)
	if err != nil {
		t.Fatal(err)
	}
	p.client = client
	p.install()
	p.makeLauncher(config.Host, config.CAFile, config.CAData)
	version, err := exec.Command(p.program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	inventory := dockertest.Program(t, "examples/mcp-eval/server", "inventory")
	p.image = load(t, os.Getenv(dockertest.ExecutableEnv), p.program, inventory)
	images, _ := json.Marshal(guests.Images{
		Waza: strings.TrimSpace(strings.TrimPrefix(string(version), "waza ")), Runner: p.image,
		FirstUser: 1 << 30, Images: map[string]guests.Image{"": {Reference: p.image}, "waza-examples/inventory": {Reference: p.image}},
	})
	p.write("waza.images.json", string(images))
	p.write("eval.yaml", strings.ReplaceAll(evalText, "NAMESPACE", namespace))
	for i, task := range tasks {
		p.write(fmt.Sprintf("tasks/%d.yaml", i+1), task)
	}
	return p
}

// install applies what waza doctor prints, where it is missing.
func (p *shardsProject) install() {
	p.Helper()
	printed, err := Manifests(p.cluster, true)
	if err != nil {
		p.Fatal(err)
	}
	for _, document := range strings.Split(printed, "---\n") {
		p.apply([]byte(document))
	}
}

func (p *shardsProject) write(name, content string) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		p.Fatal(err)
	}
}

// apply creates an object that waza doctor prints, where it is missing.
func (p *shardsProject) apply(document []byte) {
	p.Helper()
	var kind metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &kind); err != nil {
		p.Fatal(err)
	}
	ctx, in, options := p.Context(), kind.Namespace, metav1.CreateOptions{}
	var err error
	switch kind.Kind {
	case "Namespace":
		_, err = p.client.CoreV1().Namespaces().Create(ctx, read[corev1.Namespace](p, document), options)
	case "NetworkPolicy":
		_, err = p.client.NetworkingV1().NetworkPolicies(in).Create(ctx, read[networkingv1.NetworkPolicy](p, document), options)
	case "Role":
		_, err = p.client.RbacV1().Roles(in).Create(ctx, read[rbacv1.Role](p, document), options)
	case "RoleBinding":
		_, err = p.client.RbacV1().RoleBindings(in).Create(ctx, read[rbacv1.RoleBinding](p, document), options)
	case "ServiceAccount":
		_, err = p.client.CoreV1().ServiceAccounts(in).Create(ctx, read[corev1.ServiceAccount](p, document), options)
	default:
		p.Fatalf("an object of kind %q", kind.Kind)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.Fatal(err)
	}
}

func read[T any](p *shardsProject, document []byte) *T {
	p.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		p.Fatal(err)
	}
	return object
}

// makeLauncher makes a user with the role waza-launcher, and its kubeconfig.
func (p *shardsProject) makeLauncher(host, caFile string, ca []byte) {
	p.Helper()
	in := runnersOf(p.cluster)
	accounts := p.client.CoreV1().ServiceAccounts(in)
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "somebody", Namespace: in}}
	if _, err := accounts.Create(p.Context(), user, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		p.Fatal(err)
	}
	_, err := p.client.RbacV1().RoleBindings(in).Create(p.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody", Namespace: in},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbac, Kind: "Role", Name: "waza-launcher"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "somebody", Namespace: in}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.Fatal(err)
	}
	token, err := accounts.CreateToken(p.Context(), "somebody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: host, CertificateAuthority: caFile, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	p.launcher = filepath.Join(p.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, p.launcher); err != nil {
		p.Fatal(err)
	}
}

// waza is a command in the project; an empty kubeconfig is that of the cluster's administrator.
func (p *shardsProject) waza(kubeconfig string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	if args[0] == "run" && !slices.Contains(args, "--resume") {
		args = append(args, "eval.yaml", "--isolate", "--on", "kubernetes", "--allow-weak", "io-uring", "--allow-weak", "vsock", "--allow-weak", "memory-tcp")
	}
	c, said := exec.Command(p.program, args...), &bytes.Buffer{}
	c.Dir, c.Env = p.dir, append(os.Environ(), "HOME="+p.dir, "XDG_CACHE_HOME="+p.dir)
	if kubeconfig != "" {
		c.Env = append(c.Env, "KUBECONFIG="+kubeconfig)
	}
	c.Stdout, c.Stderr = said, said
	return c, said
}

func (p *shardsProject) run(kubeconfig string, code int, args ...string) string {
	p.Helper()
	c, said := p.waza(kubeconfig, args...)
	_ = c.Run()
	if got := c.ProcessState.ExitCode(); got != code {
		p.Errorf("waza %q exits with %d, not %d:\n%s", args, got, code, said)
	}
	return said.String()
}

// launched is a command that runs.
type launched struct {
	*exec.Cmd
	p     *shardsProject
	said  *bytes.Buffer // to be read once it is over
	ended chan struct{}
}

func (p *shardsProject) start(kubeconfig string, args ...string) *launched {
	p.Helper()
	l := &launched{p: p, ended: make(chan struct{})}
	l.Cmd, l.said = p.waza(kubeconfig, args...)
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
func (p *shardsProject) passed(dir string, trials int) {
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

// left lists what is left of runs in both namespaces.
func (p *shardsProject) left() (names []string) {
	p.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	for _, in := range []string{nameOf(p.cluster), runnersOf(p.cluster)} {
		pods, err := p.client.CoreV1().Pods(in).List(ctx, all)
		jobs, errJobs := p.client.BatchV1().Jobs(in).List(ctx, all)
		leases, errLeases := p.client.CoordinationV1().Leases(in).List(ctx, all)
		if err != nil || errJobs != nil || errLeases != nil {
			p.Fatal(err, errJobs, errLeases)
		}
		for _, pod := range pods.Items {
			names = append(names, "pod "+pod.Name)
		}
		for _, job := range jobs.Items {
			names = append(names, "job "+job.Name)
		}
		for _, lease := range leases.Items {
			names = append(names, "lease "+lease.Name)
		}
	}
	return names
}

func (p *shardsProject) awaitNothing(within time.Duration) {
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

// The first example in two shards, by a user with the printed role alone, has the results of one
// process.
func TestShardsAreOneRun(t *testing.T) {
	example, err := os.ReadFile("../examples/mcp-eval/eval.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"  executor: script", "  executor: script\n  isolation:\n    kubernetes: {namespace: NAMESPACE, cpu_requests: 0.02, remove_interface: true}",
		"command: inventory", "command: /inventory").Replace(string(example))
	var tasks []string
	files, _ := filepath.Glob("../examples/mcp-eval/tasks/*.yaml")
	for _, file := range files {
		task, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, string(task))
	}
	p := newShardsProject(t, "waza-shards", text, tasks...)
	if said := p.run(p.launcher, 0, "doctor", "--on", "kubernetes", "--shards", "--namespace", p.cluster.Namespace); !strings.Contains(said, "all that is needed to start runners of shards") {
		t.Error(said)
	}
	said := p.run(p.launcher, 0, "run", "--shards", "2", "--run-dir", "shards")
	for _, line := range []string{"shard 1/2: pass ", "shard 2/2: pass ", "PASSED: 3 of 3 trials passed"} {
		if !strings.Contains(said, line) {
			t.Errorf("no line %q:\n%s", line, said)
		}
	}
	p.awaitNothing(time.Minute)
	p.run("", 0, "run", "--run-dir", "one")
	if diff := cmp.Diff(resultsOf(t, filepath.Join(p.dir, "one")), resultsOf(t, filepath.Join(p.dir, "shards"))); diff != "" {
		t.Errorf("results differ (-one process +shards):\n%s", diff)
	}

	for args, says := range map[string]string{
		"--shards 0":                    "--shards must be from 1 to 256",
		"--shards 4":                    "--shards 4: the run has 3 tasks, and every shard needs one",
		"--shards 2 --shard 1/2":        "give one of the two",
		"--shards 2 --keep":             "remove one of them",
		"--shards 2 --update-snapshots": "remove one of them",
		"--shards 2 --allow-host-hooks": "remove one of them",
	} {
		if said := p.run("", 2, append([]string{"run"}, strings.Fields(args)...)...); !strings.Contains(said, says) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %s", args, said)
		}
	}

	roles := p.client.RbacV1().Roles(runnersOf(p.cluster))
	if _, err := roles.Patch(t.Context(), "waza-launcher", "application/json-patch+json", []byte(`[{"op":"remove","path":"/rules/1/verbs/1"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	said = p.run(p.launcher, 3, "run", "--shards", "2", "--run-dir", "lacking")
	if !strings.Contains(said, "in the namespace waza-shards-runners you may not watch pods; apply what waza doctor --on kubernetes --shards --print prints") || strings.Count(said, "\n") != 1 {
		t.Errorf("without a right: %s", said)
	}
	_ = roles.Delete(t.Context(), "waza-launcher", metav1.DeleteOptions{}) // for the next time
}

// evalOfTrials returns an eval with trials one after another.
func evalOfTrials(perTask int) string {
	return fmt.Sprintf(`
name: trials
config:
  trials_per_task: %d
  timeout_seconds: 60
  executor: script
  workers: 1
  isolation:
    agent: {cpus: 0.5, memory: 64m, disk: 16m}
    kubernetes: {namespace: NAMESPACE, cpu_requests: 0.02, remove_interface: true}
tasks: [tasks/*.yaml]
`, perTask)
}

// What shards have sent stays, whoever ends, and the run is completed by --resume. Of a launcher
// that is killed nothing is left in the cluster.
func TestShardsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(p *shardsProject, launcher *os.Process) error
		code int // of the launcher; -1 if it is killed
		says string
		dead bool // a runner was killed, whose lease is for waza gc
	}{
		"pod deleted":         {deletePod(runnerGrace), 3, "shard 1 of 2: its pod was deleted through the cluster's API", false},
		"pod deleted at once": {deletePod(0), 3, "shard 1 of 2: its pod was deleted through the cluster's API", true},
		"interrupted":         {func(_ *shardsProject, launcher *os.Process) error { return launcher.Signal(syscall.SIGINT) }, 3, "interrupted", false},
		"killed":              {func(_ *shardsProject, launcher *os.Process) error { return launcher.Kill() }, -1, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newShardsProject(t, "waza-shards-"+strings.ReplaceAll(name, " ", "-"), evalOfTrials(4),
				"{id: a, inputs: {prompt: x}, script: [{say: a}]}", "{id: b, inputs: {prompt: x}, script: [{say: a}]}")
			launcher := p.start(p.launcher, "run", "--shards", "2", "--run-dir", "run")
			launcher.await("run/trials/a/*/trial.json") // of the first shard
			if err := test.end(p, launcher.Process); err != nil {
				t.Error(err)
			}
			said := launcher.wait(test.code)
			if !strings.Contains(said, test.says) || test.code == 3 && !strings.Contains(said, "--resume run") {
				t.Errorf("it does not say what happened, or what to do:\n%s", said)
			}
			if test.dead {
				leases := p.client.CoordinationV1().Leases(p.cluster.Namespace)
				found, err := leases.List(t.Context(), metav1.ListOptions{})
				if err != nil { // a runner may still remove its lease
					t.Fatalf("leases: %v, %v", found, err)
				}
				for _, lease := range found.Items {
					makeOld(t, leases, lease.Name)
				}
				p.run("", 0, "gc", "--on", "kubernetes", "--namespace", p.cluster.Namespace)
			}
			p.awaitNothing(time.Minute)
			p.run("", 0, "run", "--resume", "run")
			p.passed("run", 4)
			p.awaitNothing(time.Minute)
		})
	}
}

// deletePod deletes the pod of the first shard.
func deletePod(grace int64) func(*shardsProject, *os.Process) error {
	return func(p *shardsProject, _ *os.Process) error {
		return p.client.CoreV1().Pods(runnersOf(p.cluster)).DeleteCollection(p.Context(), metav1.DeleteOptions{GracePeriodSeconds: &grace},
			metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-completion-index=0"})
	}
}
