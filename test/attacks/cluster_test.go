package attacks

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/kubernetes"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// openNodes are the attacks that the nodes of the tests' cluster let through, whatever a pod asks
// for: their containerd lets programs open vsock sockets and set up io_uring, and their kernel does
// not count buffers of TCP connections.
var openNodes = []string{"vsock", "io-uring", "memory-tcp"}

// clusterAttacks are the attacks on networks and walls, and those that go on when they should have
// ended. Whether the others succeed does not depend on the engine. Pods have no address on a
// network of trials, which trial-to-trial looks through; other pods are tried all the same.
func clusterAttacks() []Attack {
	all := slices.DeleteFunc(slices.Concat(certificateAttacks(), networkAttacks(), outlivingAttacks()), func(a Attack) bool {
		return slices.Contains(openNodes, a.Name) || a.Name == part.TrialToTrial
	})
	all[slices.IndexFunc(all, func(a Attack) bool { return a.As == Grader })].Won = gotOutOfGrader(openNodes...)
	return all
}

// TestAttacksOnEngine carries out the attacks whose outcome depends on the engine, its kernel and
// its control groups. scripts/engines runs it on other engines than that of the other tests.
func TestAttacksOnEngine(t *testing.T) {
	s := newStage(t)
	s.on = docker{args: []string{"--workers", "2"}} // an emulated machine does not keep up with more
	fills := slices.DeleteFunc(leftoverAttacks(), func(a Attack) bool { return a.taskOf() != "ten-gigabyte-file" })
	bombs := bombAttacks()
	if sharesOwner(t) {
		bombs = slices.DeleteFunc(bombs, func(a Attack) bool { return slices.Contains(ofOwner, a.Name) })
	}
	all := slices.Concat(certificateAttacks(), networkAttacks(), outlivingAttacks(), bombs, fills)
	sum := s.carryOut(t, all, 1, func(Attack) string { return s.waza })
	s.figure("attacks tried %d, succeeded %d", sum.tried, sum.succeeded)
}

// ofOwner are the attacks on what the kernel also counts for the owner of user namespaces, whom all
// containers have in common on an engine with such namespaces. A run's guarantees say so.
var ofOwner = []string{part.UsesUp, "uses-up-queues", "uses-up-timers"}

// sharesOwner reports whether the engine's containers are in user namespaces.
func sharesOwner(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(dockertest.SecurityOptions(t), func(o string) bool { return o == "name=rootless" || o == "name=userns" })
}

// cluster is a namespace of a cluster. It implements engine.
type cluster struct {
	client client.Interface
	config kube.Settings
	images []byte   // the list of images that waza reads beside the eval
	weak   []string // attacks of the certificate that may get out
}

// newClusterStage returns a stage of pods that have a guest and the hostile program.
func newClusterStage(t *testing.T, guest string, config kube.Settings, weak []string) *stage {
	t.Helper()
	runner := kubetest.Runner(t)
	c := cluster{client: kubetest.Client(t), config: config, weak: weak}
	node := kubetest.Node(t, c.client)
	c.config.CPURequests, c.config.NodeSelector = 0.02, map[string]string{corev1.LabelHostname: node}
	manifests, err := kubernetes.Manifests(config)
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Install(t, c.client, manifests)
	version, err := exec.Command(runner, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	image := guests.Image{Reference: kubetest.Image(t, guest, dockertest.Program(t, "test/attacks/hostile", "hostile"))}
	s := &stage{t: t, waza: runner, image: "waza-attacks/hostile", cache: t.TempDir()}
	c.images, _ = json.Marshal(guests.Images{
		Waza:      strings.TrimSpace(strings.TrimPrefix(string(version), "waza ")),
		FirstUser: 1 << 30, Images: map[string]guests.Image{"": image, s.image: image},
	})
	s.on = c
	s.listeners = []*listener{
		watch(t, "the node", kubetest.Command(t, "WAZA_KUBERNETES_EXEC", node, guest, probe.Subcommand, probe.Watch)...),
		watch(t, "another machine", guest, probe.Subcommand, probe.Watch),
	}
	away, heard := serveAway(t)
	s.away, s.listeners = away, append(s.listeners, heard)
	return s
}

func (c cluster) prepare(t *testing.T, dir string) (func(*eval.Eval), []string, []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "waza.images.json"), c.images, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--on", "kubernetes"}
	for _, name := range c.weak {
		args = append(args, "--allow-weak", name)
	}
	return func(e *eval.Eval) { e.Config.Isolation.Subnets, e.Config.Isolation.Kubernetes = "", c.config }, args, []string{"KUBECONFIG=" + kubetest.Allow(t, map[string]any{"namespace": c.config.Namespace, "node_selector": c.config.NodeSelector})}
}

// left also lists what has ended, which is garbage after a runner that was killed.
func (c cluster) left(t *testing.T, r *Run, _ string) (all []string) {
	record, err := runner.ReadRecord(r.Dir)
	if err != nil {
		return []string{err.Error()}
	}
	pods, leases := kubetest.Left(t, c.client, c.config.Namespace, record.ID)
	for _, pod := range pods {
		kind := "pod "
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			kind = "ended pod "
		}
		all = append(all, kind+pod.Name)
	}
	for _, l := range leases {
		all = append(all, "lease "+l)
	}
	return all
}

func (c cluster) remove(t *testing.T, r *Run, _ string) {
	record, err := runner.ReadRecord(r.Dir)
	if err != nil {
		return
	}
	foreground := metav1.DeletePropagationForeground
	_, leases := kubetest.Left(t, c.client, c.config.Namespace, record.ID)
	for _, l := range leases {
		if err := c.client.CoordinationV1().Leases(c.config.Namespace).Delete(context.Background(), l, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Error(err)
		}
	}
}

// TestOnCluster carries out attacks on a cluster, in pods without an interface, and no attack may
// succeed.
func TestOnCluster(t *testing.T) {
	kubetest.Require(t)
	t.Parallel()
	s := newClusterStage(t, dockertest.Waza(t), kube.Settings{Namespace: "waza-attacks", RemoveInterface: true}, openNodes)
	sum := s.carryOut(t, clusterAttacks(), 2, func(Attack) string { return s.waza })
	s.figure("on a cluster: attacks tried %d, succeeded %d; neighbouring trials %d, harmed %d", sum.tried, sum.succeeded, sum.neighbours, sum.harmed)
}

// TestControlsOnCluster carries them out where pods keep their interface and the guest lacks its
// defences: of those that these hold, each must succeed.
func TestControlsOnCluster(t *testing.T) {
	kubetest.Require(t)
	t.Parallel()
	all := builds()
	guest, err := all[slices.IndexFunc(all, func(b build) bool { return b.name == probe.GuestBuild })].make(t)
	if err != nil {
		t.Fatal(err)
	}
	weak := slices.Sorted(maps.Keys(byName(certificateAttacks())))
	s := newClusterStage(t, guest, kube.Settings{Namespace: "waza-attacks-open"}, weak)
	var attacks []Attack
	for _, name := range []string{probe.HostTCP, "bridge-tcp", "host-udp", "dns-host", "guest-memory", "guest-ptrace", "outlive-agent"} {
		attacks = append(attacks, byName(clusterAttacks())[name])
	}
	shown := s.show(t, s.waza, attacks)
	s.figure("on a cluster, with an interface and without the guest's defences: attacks that succeeded %d of %d", shown, len(attacks))
}

func byName(attacks []Attack) map[string]Attack {
	named := map[string]Attack{}
	for _, a := range attacks {
		named[a.Name] = a
	}
	return named
}
