// Package kubetest helps tests on the Kubernetes cluster that KUBECONFIG names.
package kubetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/waza-isolate/waza/internal/dockertest"
)

const (
	loadEnv    = "WAZA_KUBERNETES_LOAD"
	requireEnv = "WAZA_REQUIRE_KUBERNETES"
	// guestPath is where images have the guest.
	guestPath = "opt/waza/waza"
)

// Require skips a test if there is no cluster, or fails it with WAZA_REQUIRE_KUBERNETES=1.
// WAZA_KUBERNETES_LOAD is the command that loads an image archive onto the cluster's nodes.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("KUBECONFIG") != "" && os.Getenv(loadEnv) != "" {
		return
	}
	missing(t, "no cluster: set KUBECONFIG and "+loadEnv+", as scripts/cluster says")
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(requireEnv) == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Command returns the words of the command in an environment variable, such as
// WAZA_KUBERNETES_EXEC. It skips the test if there is none: scripts/cluster provides such commands,
// other clusters may not.
func Command(t testing.TB, env string, args ...string) []string {
	t.Helper()
	words := strings.Fields(os.Getenv(env))
	if len(words) == 0 {
		t.Skip(env + " is not set; scripts/test sets it for scripts/cluster")
	}
	return append(words, args...)
}

// Runner returns the path of waza-kubernetes, which scripts/build kubernetes builds next to waza.
func Runner(t testing.TB) string {
	t.Helper()
	guest := os.Getenv(dockertest.ExecutableEnv)
	if guest == "" {
		missing(t, dockertest.ExecutableEnv+" is not set to waza, which scripts/build kubernetes builds with waza-kubernetes")
	}
	return filepath.Join(filepath.Dir(guest), "waza-kubernetes")
}

// Client returns a client of the cluster.
func Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Allow writes a kubeconfig with a current context that allows evals the given settings of pods,
// with the keys of config.isolation.kubernetes. It returns the path.
func Allow(t testing.TB, settings any) string {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Extensions = map[string]runtime.Object{"waza": &runtime.Unknown{Raw: written, ContentType: runtime.ContentTypeJSON}}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Node returns the name of the first node.
func Node(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("nodes: %v, %v", nodes, err)
	}
	return nodes.Items[0].Name
}

// Install creates the namespace and the policy in manifests, as printed by waza doctor, if they do
// not exist.
func Install(t testing.TB, client kubernetes.Interface, manifests string) {
	t.Helper()
	for _, document := range strings.Split(manifests, "---\n") {
		var kind metav1.TypeMeta
		err := yaml.Unmarshal([]byte(document), &kind)
		switch kind.Kind {
		case "Namespace":
			var namespace corev1.Namespace
			if err = yaml.Unmarshal([]byte(document), &namespace); err == nil {
				_, err = client.CoreV1().Namespaces().Create(t.Context(), &namespace, metav1.CreateOptions{})
			}
		case "NetworkPolicy":
			var policy networkingv1.NetworkPolicy
			if err = yaml.Unmarshal([]byte(document), &policy); err == nil {
				_, err = client.NetworkingV1().NetworkPolicies(policy.Namespace).Create(t.Context(), &policy, metav1.CreateOptions{})
			}
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// Left lists the pods and leases of a run in a namespace.
func Left(t testing.TB, client kubernetes.Interface, namespace, run string) (pods []corev1.Pod, leases []string) {
	t.Helper()
	ctx, of := context.Background(), metav1.ListOptions{LabelSelector: dockertest.RunLabel + "=" + run}
	found, err := client.CoreV1().Pods(namespace).List(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	held, err := client.CoordinationV1().Leases(namespace).List(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range held.Items {
		leases = append(leases, l.Name)
	}
	return found.Items, leases
}

// Image loads an image that contains a static program as guest, and others in the root directory,
// and returns its id.
func Image(t testing.TB, program string, others ...string) string {
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
			name = guestPath
		}
		write(t, w, tar.Header{Name: name, Mode: 0o755}, content)
	}
	_ = w.Close()
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	config, _ := json.Marshal(map[string]any{
		"architecture": goruntime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	name := "docker.io/library/waza-guest:test-" + digest(layer.Bytes())[:16]
	manifest, _ := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
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
	Load(t, path)
	return "sha256:" + digest(config)
}

// Load loads image archives onto the nodes.
func Load(t testing.TB, archives ...string) {
	t.Helper()
	words := append(strings.Fields(os.Getenv(loadEnv)), archives...)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
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
