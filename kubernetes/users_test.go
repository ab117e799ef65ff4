package kubernetes

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/waza-isolate/waza/internal/kubetest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// asked returns the pods that a cluster is asked for by one start, where answer decides what becomes of each.
func asked(t *testing.T, user string, answer func(b *Backend, pod *corev1.Pod) error) (all []*corev1.Pod, b *Backend, err error) {
	t.Helper()
	b, client := faked()
	b.images = guests.Images{Images: map[string]guests.Image{"": {Reference: "r"}}}
	b.users, b.lease = usersFor("r", 1<<30), &lease{owner: metav1.OwnerReference{UID: types.UID("u")}}
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		all = append(all, pod.DeepCopy())
		pod.Spec.NodeName = "n"
		err := answer(b, pod)
		b.watch.handlePod(pod, false)
		return true, pod, err
	})
	client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b.watch.handlePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: a.(clienttesting.DeleteAction).GetName()}}, true)
		return true, nil, nil
	})
	p, err := b.planInput().plan(&sandbox.Spec{Number: 1}, sandbox.ContainerSpec{Name: "s", Container: sandbox.Container{CPUs: 1, Memory: 1 << 20, User: user}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.start(t.Context(), p, &share{alone: true})
	return all, b, err
}

const cannot = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"

// A pod has a user namespace where that is possible, and else none, as its run says.
func TestUserNamespaces(t *testing.T) {
	fails := func(_ *Backend, pod *corev1.Pod) error { pod.Status.Phase = corev1.PodFailed; return nil }
	event := func(reason, message string) func(*Backend, *corev1.Pod) error {
		return func(b *Backend, pod *corev1.Pod) error {
			if !ownUsers(pod) {
				return fails(b, pod)
			}
			return b.client.(*fake.Clientset).Tracker().Add(&corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: "n"}, Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{Name: pod.Name},
			})
		}
	}
	waits := func(reason, message string) func(*Backend, *corev1.Pod) error {
		return func(b *Backend, pod *corev1.Pod) error {
			if !ownUsers(pod) {
				return fails(b, pod)
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
			return nil
		}
	}
	for name, test := range map[string]struct {
		user   string
		answer func(*Backend, *corev1.Pod) error
		asks   []bool // for a user namespace, by pod
		why    string // none is given; empty if it is not said
	}{
		"it is given":             {"", fails, []bool{true}, ""},
		"a user that it has":      {"1001:1002", fails, []bool{true}, ""},
		"a user that it lacks":    {"70000:70000", fails, []bool{false}, ""},
		"a group that it lacks":   {"1000:70000", fails, []bool{false}, ""},
		"the API does not know":   {"", func(b *Backend, pod *corev1.Pod) error { pod.Spec.HostUsers = nil; return fails(b, pod) }, []bool{true, false}, "the cluster's API does not know hostUsers"},
		"the runtime cannot":      {"", event("FailedCreatePodSandBox", cannot), []bool{true, false}, "runtime does not support user namespaces"},
		"a user all the same":     {"1001:1002", event("FailedCreatePodSandBox", cannot), []bool{true, false}, "runtime does not support user namespaces"},
		"the kubelet has it off":  {"", event("FailedCreatePodSandBox", "Failed to create pod sandbox: the feature gate \"UserNamespacesSupport\" is disabled: can't set spec.HostUsers"), []bool{true, false}, "feature gate"},
		"the node has none left":  {"", event("FailedCreatePodSandBox", "Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace"), []bool{true, false}, "empty slot"},
		"the kernel cannot map":   {"", waits("RunContainerError", "failed to set MOUNT_ATTR_IDMAP on /x: invalid argument"), []bool{true, false}, "MOUNT_ATTR_IDMAP"},
		"another failure":         {"", waits("ErrImagePull", "no such image"), []bool{true}, ""},
		"an image called as that": {"", waits("ErrImagePull", "no such image: mount_attr_idmap"), []bool{true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pods, b, err := asked(t, test.user, test.answer)
				var asks []bool
				users := map[int64]bool{}
				for _, pod := range pods {
					asks = append(asks, ownUsers(pod))
					user := *pod.Spec.SecurityContext.RunAsUser
					if ownUsers(pod) && user >= mappedUsers || test.user == "" && ownUsers(pod) != (user < mappedUsers) {
						t.Errorf("user %d, with a user namespace: %t", user, ownUsers(pod))
					}
					users[user] = true
				}
				if !slices.Equal(asks, test.asks) || err == nil || errors.As(err, new(noUsersError)) {
					t.Errorf("pods ask for user namespaces: %v, then: %v", asks, err)
				}
				why := b.sharesUsers.Load()
				if (why != nil) != (test.why != "") || why != nil && !strings.Contains(*why, test.why) {
					t.Errorf("the run says %v, want %q", why, test.why)
				}
				if b.planInput().ownUsers != (test.why == "") {
					t.Errorf("later pods ask for user namespaces: %t", b.planInput().ownUsers)
				}
				if left := len(b.users); left != guests.MaxContainers {
					t.Errorf("%d users are in the pool, of %d", left, guests.MaxContainers)
				}
			})
		})
	}
}

// TestUserMaps has how many of three pods have a user namespace, and what guarantees say.
func TestUserMaps(t *testing.T) {
	const given, shared, owner = "every pod has a user namespace", "pods share their node's user namespace", "pods on one node share the kernel's limits of inotify, timers and message queues"
	why := "the node has none left"
	for own, want := range [][]string{{shared, why}, {shared, owner, why}, {shared, owner, why}, {given, owner}} {
		enforced, missing := userMaps(own, 3, &why)
		said := strings.Join(append(enforced, missing...), "\n")
		for _, line := range []string{given, shared, owner, why} {
			if strings.Contains(said, line) != slices.Contains(want, line) {
				t.Errorf("%d of 3 pods have a user namespace, and guarantees say:\n%s", own, said)
			}
		}
	}
}

// Guarantees say whether all pods of a trial have a user namespace, and on a cluster that cannot, why.
func TestUsersOfTrial(t *testing.T) {
	b := openIn(t, suiteProgram(t), "waza-users")
	s := stand(t, b, "one").(*trialSandbox)
	const given, shared = "every pod has a user namespace", "pods share their node's user namespace"
	said := strings.Join(append(s.Guarantees().Enforced, s.Guarantees().Missing...), "\n")
	kubelet := kubetest.Client(t)
	nodes, err := kubelet.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var checks sandbox.Checks
	examineUsers(t.Context(), b.client, b.namespace, &checks)
	t.Log(checks)
	can := nodesWithUsers(nodes.Items) == len(nodes.Items)
	if strings.Contains(said, given) != can || strings.Contains(said, shared) == can {
		t.Errorf("all nodes can: %t; guarantees:\n%s", can, said)
	}
	if why := b.sharesUsers.Load(); !can && (why == nil || !strings.Contains(said, *why)) {
		t.Errorf("they do not say why:\n%s", said)
	}
	for _, c := range s.pods {
		if c.Guest.Hello().UserNamespace != can {
			t.Errorf("the guest of %s sees a user namespace: %t", c.plan.container, !can)
		}
	}
	// What is asked for and not seen from inside is no sandbox.
	for _, c := range s.pods {
		if err := guests.CheckWalls(c.Guest.Hello(), guests.Walls{Interface: true, OwnUsers: true}); (err == nil) != can {
			t.Errorf("a pod that is to have a user namespace is accepted: %v", err)
		}
	}
}

// What an admission webhook puts into a pod is refused.
func TestAddedToPods(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*corev1.PodSpec)
		want string
	}{
		"nothing":  {func(*corev1.PodSpec) {}, ""},
		"defaults": {func(s *corev1.PodSpec) { s.PriorityClassName, s.SchedulerName = "high", "default-scheduler" }, ""},
		"a sidecar": {func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "istio-proxy", Image: "istio"})
		}, `the container "istio-proxy of istio"`},
		"an init": {func(s *corev1.PodSpec) {
			s.InitContainers = append(s.InitContainers, corev1.Container{Name: "istio-init"})
		}, `the init container "istio-init of "`},
		"another image":   {func(s *corev1.PodSpec) { s.Containers[0].Image = "mirror.example/guest:1" }, `the container "guest of mirror.example/guest:1"`},
		"a token":         {func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "kube-api-access-x"}) }, `the volume "kube-api-access-x"`},
		"an own host pid": {func(s *corev1.PodSpec) { s.HostPID = true }, "the node's namespaces"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, err := asked(t, "", func(_ *Backend, pod *corev1.Pod) error {
				test.add(&pod.Spec)
				pod.Status.Phase = corev1.PodFailed
				return nil
			})
			if got := err != nil && strings.Contains(err.Error(), "the cluster adds "+test.want+" to it"); got != (test.want != "") {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
		})
	}
}
