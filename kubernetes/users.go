package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// noUsersError means that a pod gets no user namespace.
type noUsersError struct{ why string }

func (e noUsersError) Error() string { return "it gets no user namespace: " + e.why }

// ownUsers reports whether a pod has or requests a user namespace.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// userMaps returns what user namespaces enforce and do not enforce for a sandbox of pods, own of
// which have one. why is why the others have none; nil if unknown.
func userMaps(own, pods int, why *string) (enforced, missing []string) {
	if own == pods {
		enforced = append(enforced, "every pod has a user namespace: its users are nobody on the node and in other pods")
	} else {
		shared := "pods share their node's user namespace, where a pod of another run may have the same user; the two then share the kernel's limits by user"
		if why != nil {
			shared += " (" + *why + ")"
		}
		missing = append(missing, shared)
	}
	if own > 0 { // the node's runtime creates all of them, as root
		missing = append(missing, guests.SharedOwner("pods on one node"))
	}
	return enforced, missing
}

// eventsEvery is the interval of requests for a pod's events while it waits for its user namespace;
// eventsSeldom is the interval once another pod of the run has one.
const (
	eventsEvery  = 500 * time.Millisecond
	eventsSeldom = 10 * time.Second
)

// awaitUsers is like [followed.await] for a scheduled pod. It returns a noUsersError if the node
// cannot provide the user namespace, which only the kubelet's events report.
func (c *startedPod) awaitUsers(ctx context.Context, until func(*corev1.Pod, bool) bool) (*corev1.Pod, bool, error) {
	if c.plan.pod == nil || !ownUsers(c.plan.pod) {
		return c.followed.await(ctx, until)
	}
	for {
		every := eventsEvery
		if c.backend.givesUsers.Load() {
			every = eventsSeldom
		}
		patient, cancel := context.WithTimeout(ctx, every)
		pod, gone, err := c.followed.await(patient, until)
		cancel()
		if failure := startFailure(pod); failure != nil && refusesUsers(failure.Error()) {
			return pod, gone, noUsersError{failure.Error()}
		}
		if err == nil && pod != nil && conditionOf(pod, corev1.PodReadyToStartContainers) {
			c.backend.givesUsers.Store(true)
		}
		if err == nil || ctx.Err() != nil {
			return pod, gone, err
		}
		if pod != nil && conditionOf(pod, corev1.PodReadyToStartContainers) {
			continue
		}
		if why := c.backend.sharesUsers.Load(); why != nil {
			return pod, gone, noUsersError{*why}
		}
		last, now := c.backend.askedEvents.Load(), time.Now().UnixNano()
		if time.Duration(now-last) < eventsEvery || !c.backend.askedEvents.CompareAndSwap(last, now) {
			continue // another pod asks; the result applies to all
		}
		events, err := c.backend.client.CoreV1().Events(c.backend.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + c.followed.name})
		if err != nil {
			continue // the pod's own time limit applies
		}
		for _, event := range events.Items {
			if event.Reason == "FailedCreatePodSandBox" && refusesUsers(event.Message) {
				return pod, gone, noUsersError{strings.TrimPrefix(event.Message, "Failed to create pod sandbox: ")}
			}
		}
	}
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// refusesUsers reports whether a node's message says that it cannot provide a user namespace: the
// kubelet's, or the runtime's if the kernel cannot map the owners of a volume's files.
func refusesUsers(message string) bool {
	if strings.Contains(message, "ErrImage") || strings.Contains(message, "ImagePullBackOff") {
		return false // the message quotes an image's name
	}
	message = strings.ToLower(message)
	return strings.Contains(message, "spec.hostusers") || strings.Contains(message, "user namespace") || strings.Contains(message, "mount_attr_idmap")
}

// examinedImage is the image of the pod that is only created as a dry run.
const examinedImage = "waza-guest"

// examineUsers checks whether pods get user namespaces, with a dry-run creation of a pod. Only
// users who may list nodes learn what the nodes support.
func examineUsers(ctx context.Context, client kubernetes.Interface, namespace string, all *sandbox.Checks) {
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "waza-doctor-"},
		Spec:       planInput{}.spec(examinedImage, examinedImage, sandbox.Container{}),
	}
	user := int64(firstMapped)
	pod.Spec.HostUsers, pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsGroup = &no, &user, &user
	pod.Spec.Containers[0].Resources = planInput{}.resources(sandbox.Container{CPUs: 1, Memory: 512 << 20})
	made, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err != nil:
		all.Fail("pods", fmt.Sprintf("the namespace %s would refuse a pod of a trial: %v", namespace, err), "Have an administrator apply what waza doctor --on kubernetes --print prints, or allow such pods.")
		return
	case !ownUsers(made):
		all.OK("users", "the cluster's API does not know user namespaces (hostUsers): pods share their node's, as their runs' guarantees say")
		return
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		all.OK("users", "pods ask for user namespaces (hostUsers: false); whether nodes give them, which you may not look at, a run's first pods show and its guarantees say")
		return
	}
	all.OK("users", fmt.Sprintf("%d of %d nodes can give pods user namespaces (hostUsers: false); on others pods share their node's, as their runs' guarantees say", nodesWithUsers(nodes.Items), len(nodes.Items)))
}

// nodesWithUsers returns how many nodes support user namespaces.
func nodesWithUsers(nodes []corev1.Node) (able int) {
	for _, node := range nodes {
		for _, handler := range node.Status.RuntimeHandlers {
			if handler.Name == "" && handler.Features != nil && handler.Features.UserNamespaces != nil && *handler.Features.UserNamespaces {
				able++
			}
		}
	}
	return able
}
