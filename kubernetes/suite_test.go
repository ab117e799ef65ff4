package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/sandboxtest"
)

// requireCluster skips a test that has no cluster, or fails it with WAZA_REQUIRE_KUBERNETES=1. What
// loads an image's archive onto the cluster's nodes is the command WAZA_KUBERNETES_LOAD.
func requireCluster(t testing.TB) {
	t.Helper()
	if os.Getenv("KUBECONFIG") != "" && os.Getenv("WAZA_KUBERNETES_LOAD") != "" {
		return
	}
	const missing = "no cluster: set KUBECONFIG and WAZA_KUBERNETES_LOAD, as scripts/cluster says"
	if os.Getenv("WAZA_REQUIRE_KUBERNETES") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// load loads an image that holds a static program as guest, and others at the root, and returns
// its reference.
func load(t testing.TB, program string, others ...string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"opt/", "opt/waza/", "etc/", "etc/waza/", "workspace/", "tmp/", "home/", "home/agent/"} {
		write(t, w, tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for i, from := range append([]string{program}, others...) {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(from)
		if i == 0 {
			name = strings.TrimPrefix(sandbox.GuestPath, "/")
		}
		write(t, w, tar.Header{Name: name, Mode: 0o755}, content)
	}
	_ = w.Close()
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	config, _ := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	ref := "docker.io/library/waza-guest:test-" + digest(layer.Bytes())[:16]
	manifest, _ := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{ref}, "Layers": []string{"layer.tar"}}})
	path := filepath.Join(t.TempDir(), "image.tar")
	archive, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w = tar.NewWriter(archive)
	write(t, w, tar.Header{Name: "config.json", Mode: 0o644}, config)
	write(t, w, tar.Header{Name: "layer.tar", Mode: 0o644}, layer.Bytes())
	write(t, w, tar.Header{Name: "manifest.json", Mode: 0o644}, manifest)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_ = archive.Close()
	words := append(strings.Fields(os.Getenv("WAZA_KUBERNETES_LOAD")), path)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
	return ref
}

func write(t testing.TB, w *tar.Writer, h tar.Header, content []byte) {
	t.Helper()
	h.Size = int64(len(content))
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
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
		b := open(t, program, Options{Config: eval.Kubernetes{CPURequests: 0.02}, AllowWeak: []string{probe.HostTCP}})
		return sandboxtest.Opened{
			Backend: b, Name: "kubernetes",
			Trial:     plan.Trial{Run: b.run, Network: "airtight", Workspace: "tmpfs"},
			Container: sandbox.Container{CPUs: 0.5, Memory: 64 << 20, Disk: 16 << 20, Pids: 64},
			Left:      b.left,
		}
	})
}

// install creates the namespace and its policy where they are missing.
func install(ctx context.Context, c eval.Kubernetes) error {
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
