package kubernetes

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// counter counts what is asked of the API through it, by method and resource.
type counter struct {
	mu    sync.Mutex
	asked map[string]int // guarded by mu
}

// countAPI has clients reach the cluster's API through a counter from now on.
func countAPI(t testing.TB) *counter {
	t.Helper()
	requireCluster(t)
	config, _, _, err := connect(kube.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{asked: map[string]int{}}
	forward := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); utilnet.CloseIdleConnectionsFor(transport) })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"counted": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"counted": {Cluster: "counted"}},
		CurrentContext: "counted",
	}, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	return c
}

func (c *counter) count(r *http.Request) {
	words := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // .../namespaces/NAME/RESOURCE/NAME/SUBRESOURCE
	what := r.URL.Path
	for i, word := range words {
		if word == "namespaces" && len(words) > i+2 {
			what = words[i+2]
			if len(words) > i+4 {
				what += "/" + words[i+4]
			}
			if r.Method == http.MethodGet && len(words) == i+3 && r.URL.Query().Get("watch") == "" {
				what = "list of " + what
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[r.Method+" "+what]++
}

// take returns what was asked since it was called last.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := maps.Clone(c.asked)
	clear(c.asked)
	return asked
}

// Of 500 pods that are asked for at once few wait for a node at any time, and each is written to
// twice. Their node is kwok's: its pods run as far as the API knows, and there is nothing to attach to.
func TestManyPods(t *testing.T) {
	const pods = 500
	kwok := kubetest.Command(t, "WAZA_KUBERNETES_KWOK")
	program := suiteProgram(t)
	_, direct, _, err := connect(kube.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	counts := countAPI(t)
	label := map[string]string{"waza-test": "scale"}
	b := open(t, program, Options{Config: kube.Settings{Namespace: "waza-scale", NodeSelector: label, Tolerations: []kube.Toleration{{Operator: "Exists"}}}})
	counts.take()

	heap := heapInUse()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	seen := watchPending(ctx, t, direct, b.namespace)
	errs := make(chan error, pods)
	for n := range pods {
		go func() {
			_, err := b.Open(ctx, &sandbox.Spec{
				Run: b.run, Task: "t", Number: n + 1, Lifetime: sandbox.LifeOfRun, Network: sandbox.NetworkAirtight,
				Containers: []sandbox.ContainerSpec{{Name: "one", Role: sandbox.RoleServer, Container: small()}},
			}, func(evidence.Event) {})
			errs <- err
		}()
	}
	dockertest.Await(t, 3*time.Minute, "as many pods wait as may", func() bool { return seen.now() == mostPending })
	time.Sleep(pendingPatience + time.Second)
	if asked := counts.take(); asked["POST pods"] != mostPending {
		t.Errorf("while there is no node, %v is asked, want %d pods created", asked, mostPending)
	} else {
		counts.add(asked)
	}
	grown := heapInUse() - heap
	runKwok(t, kwok)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "waza-test-scale", Labels: label, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
	if _, err := direct.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	began := time.Now()
	for range pods {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "attach to pod") {
			t.Fatalf("a pod that runs on kwok's node: %v, want that nothing answers", err)
		}
	}
	asked := counts.take()
	t.Logf("%d pods in %s, at most %d pending, %d KiB of heap for those that wait; asked: %v", pods, time.Since(began).Round(time.Second), seen.most(), grown>>10, asked)
	if most := seen.most(); most > mostPending {
		t.Errorf("%d pods were pending at once, want at most %d", most, mostPending)
	}
	if asked["POST pods"] != pods || asked["GET pods/attach"] != pods || asked["DELETE pods"] > pods {
		t.Errorf("asked %v; want each of %d pods to be created, attached to and deleted once", asked, pods)
	}
	if most := int(time.Since(began)/eventsEvery) + 1; asked["GET list of events"] > most {
		t.Errorf("asked for events %d times, want at most once every %s for all pods together", asked["GET list of events"], eventsEvery)
	}
	delete(asked, "GET list of events")
	for what, n := range asked {
		if strings.Contains(what, "list of") || n > 20 && !strings.HasSuffix(what, " pods") && what != "GET pods/attach" && what != "GET /readyz" {
			t.Errorf("%d times: %s", n, what)
		}
	}
	if left := b.left(t); len(left) > 0 {
		t.Errorf("%d pods are left", len(left))
	}
}

func (c *counter) add(asked map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range asked {
		c.asked[what] += n
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// pending counts pods without a node.
type pending struct {
	mu      sync.Mutex
	waiting map[string]bool // guarded by mu
	largest int             // guarded by mu
}

func (p *pending) now() int  { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) }
func (p *pending) most() int { p.mu.Lock(); defer p.mu.Unlock(); return p.largest }

// watchPending watches the pods of a namespace.
func watchPending(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string) *pending {
	t.Helper()
	w, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &pending{waiting: map[string]bool{}}
	go func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			p.mu.Lock()
			if delete(p.waiting, pod.Name); event.Type != "DELETED" && pod.Spec.NodeName == "" {
				p.waiting[pod.Name] = true
			}
			p.largest = max(p.largest, len(p.waiting))
			p.mu.Unlock()
		}
	}()
	return p
}

// runKwok plays the kubelet of kwok's nodes until the test ends.
func runKwok(t *testing.T, words []string) {
	t.Helper()
	output := &bounded.Ends{Tail: tailSize}
	kwok := exec.Command(words[0], words[1:]...)
	kwok.Stdout, kwok.Stderr = output, output
	if err := kwok.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kwok.Process.Signal(os.Interrupt)
		if err := kwok.Wait(); t.Failed() {
			t.Logf("kwok: %v%s", err, output.Suffix())
		}
	})
}
