package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const (
	// startTimeout bounds the time from a pod's scheduling to its guest's hello, which includes
	// pulling its images.
	startTimeout = 5 * time.Minute
	// cleanupTimeout bounds removing a group of objects.
	cleanupTimeout = 45 * time.Second
	// While the usage of a new quota is not known yet, creating a pod is retried countAttempts times,
	// with pauses of countPause.
	countPause    = time.Second
	countAttempts = 10
	// askTimeout bounds one request to the API or to a guest.
	askTimeout = 5 * time.Second
	// tailSize is how many bytes at the end of an output are shown in messages.
	tailSize = 2 << 10
)

// startedPod is a running pod and the connection to its process 1.
type startedPod struct {
	guests.Container
	backend  *Backend
	plan     podPlan
	followed *followed
	pipe     *pipe
}

// start starts a pod. If its node cannot provide a user namespace, this and all later pods of the
// run do without.
func (b *Backend) start(ctx context.Context, p podPlan, room *share) (*startedPod, error) {
	c, err := b.startAs(ctx, p, room)
	var cannot noUsersError
	if !errors.As(err, &cannot) {
		return c, err
	}
	b.sharesUsers.CompareAndSwap(nil, &cannot.why)
	if p.insists == "" {
		p.user = b.users.Get() // its previous user was returned
	}
	p.pod = p.pod.DeepCopy()
	p.pod.Name = b.newName()
	if err := p.setUser(false); err != nil {
		return nil, err
	}
	return b.startAs(ctx, p, room)
}

// startAs creates a pod, waits until it runs, and attaches to its guest, which exits if nobody
// attaches. On error nothing is left, unless the pod could not be deleted.
func (b *Backend) startAs(ctx context.Context, p podPlan, room *share) (_ *startedPod, err error) {
	c := &startedPod{backend: b, plan: p, followed: b.watch.follow(p.pod.Name)}
	c.Program, c.Stderr, c.Starved = p.image.Program, &bounded.Ends{Tail: tailSize}, c.followed.starved
	defer func() {
		if err == nil {
			return
		}
		err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := b.queue.enter(ctx); err != nil {
		return nil, err
	}
	err = b.create(ctx, p.pod)
	if err == nil {
		err = c.awaitNode(ctx, room)
	}
	b.queue.leave()
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", p.pod.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.awaitRunning(ctx); err != nil {
		return nil, fmt.Errorf("pod %s: %w", p.pod.Name, err)
	}
	if c.pipe, err = b.attach(p.pod.Name, c.Stderr); err != nil {
		return nil, fmt.Errorf("attach to pod %s: %w", p.pod.Name, err)
	}
	c.Guest, err = c.connect(ctx)
	if broke := c.pipe.broke(); err != nil && broke != nil {
		return nil, fmt.Errorf("attach to pod %s: %w", p.pod.Name, broke)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w%s", p.pod.Name, err, c.Stderr.Suffix())
	}
	return c, nil
}

// connect starts the session with the guest. The guest encrypts its output, because the node stores
// it in the container's log.
func (c *startedPod) connect(ctx context.Context) (*guest.Guest, error) {
	if !slices.Contains(c.plan.pod.Spec.Containers[0].Command, guest.Sealed) {
		return guest.Connect(ctx, c.pipe, nil)
	}
	defer context.AfterFunc(ctx, func() { _ = c.pipe.Close() })()
	pipe, err := guest.Seal(c.pipe)
	if err != nil {
		return nil, err
	}
	return guest.Connect(ctx, pipe, nil)
}

// awaitNode waits until the pod is scheduled. While the scheduler finds no node, the queue admits
// no other pods. The error is a roomError if the trial must yield.
func (c *startedPod) awaitNode(ctx context.Context, room *share) error {
	hasNode := func(pod *corev1.Pod, gone bool) bool { return gone || pod.Spec.NodeName != "" || over(pod) }
	patiently := func() (*corev1.Pod, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, pendingPatience)
		defer cancel()
		return c.followed.await(ctx, hasNode)
	}
	pod, gone, err := patiently()
	if err != nil && ctx.Err() == nil {
		c.backend.queue.halt(c.followed.name, schedulersWords(pod))
		defer c.backend.queue.resume(c.followed.name)
	}
	for waited := time.Duration(0); err != nil && ctx.Err() == nil && waited < pendingLimit; waited += pendingPatience {
		if room.yields() {
			return roomError{fmt.Errorf("the cluster has no room for it and the trial's others: %s", schedulersWords(pod))}
		}
		pod, gone, err = patiently()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("it has no node after %s: %s", pendingPatience+pendingLimit, schedulersWords(pod))
	case deleted(pod, gone):
		return errors.New(judge(pod, gone, nil, nil).Message)
	}
	room.placed.Add(1)
	return nil
}

// schedulersWords returns why a pod is not scheduled.
func schedulersWords(pod *corev1.Pod) string {
	if pod != nil {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue && condition.Message != "" {
				return condition.Message
			}
		}
	}
	return "the scheduler has said nothing of it"
}

// awaitRunning waits until process 1 is running.
func (c *startedPod) awaitRunning(ctx context.Context) error {
	var failure error
	pod, gone, err := c.awaitUsers(ctx, func(pod *corev1.Pod, gone bool) bool {
		if failure = startFailure(pod); deleted(pod, gone) || failure != nil || over(pod) {
			return true
		}
		status := statusOf(pod)
		return status != nil && status.State.Running != nil
	})
	switch {
	case err != nil && ctx.Err() != nil && pod != nil:
		return fmt.Errorf("%w: %s", context.Cause(ctx), describe(pod))
	case err != nil:
		return err
	case deleted(pod, gone):
		return errors.New(judge(pod, gone, nil, nil).Message)
	case failure != nil:
		return failure
	case over(pod):
		return fmt.Errorf("it ended before it was used: %s", describe(pod))
	}
	return nil
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// deleted reports whether a pod is deleted or being deleted.
func deleted(pod *corev1.Pod, gone bool) bool { return gone || pod.DeletionTimestamp != nil }

// statusOf returns the status of the guest's container, or nil if there is none yet.
func statusOf(pod *corev1.Pod) *corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[0]
}

// hopeless are reasons for a waiting container that waiting does not resolve.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// startFailure returns why a pod's containers cannot start, or nil if they still may.
func startFailure(pod *corev1.Pod) error {
	if pod == nil {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := status.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
			err := fmt.Errorf("its container %s cannot be started: %s: %s", status.Name, w.Reason, w.Message)
			if w.Reason == "ErrImageNeverPull" {
				err = fmt.Errorf("%w; load the archive of waza images save onto this node, or push the images to a registry", err)
			}
			return err
		}
	}
	return nil
}

// describe describes the state of a pod.
func describe(pod *corev1.Pod) string {
	words := []string{string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case status.State.Waiting != nil:
			words = append(words, status.Name+" waits", status.State.Waiting.Reason, status.State.Waiting.Message)
		case status.State.Terminated != nil:
			words = append(words, fmt.Sprintf("%s ended with code %d", status.Name, status.State.Terminated.ExitCode), status.State.Terminated.Reason, status.State.Terminated.Message)
		}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// Close ends the pod. It returns when the pod is gone and its user was returned.
func (c *startedPod) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	defer c.followed.leave()
	switch {
	case c.Guest != nil:
		_ = c.Guest.Close()
	case c.pipe != nil:
		_ = c.pipe.Close()
	}
	err := c.backend.deletePod(ctx, c.followed)
	if err == nil {
		c.backend.giveBack(c.plan)
	}
	return err
}

// uncountedQuota is the API's error for a pod while the usage of a quota is unknown.
const uncountedQuota = "status unknown for quota: "

// create creates a pod. It retries while the usage of a new quota is unknown.
func (b *Backend) create(ctx context.Context, pod *corev1.Pod) error {
	for n := 1; ; n++ {
		made, err := b.client.CoreV1().Pods(b.namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err == nil && ownUsers(pod) && !ownUsers(made) {
			return noUsersError{"the cluster's API does not know hostUsers"}
		}
		if added := addedTo(pod, made); err == nil && added != "" {
			return fmt.Errorf("the cluster adds %s to it, which would be beside what the pod isolates: have whatever adds it (an admission webhook or policy) leave out the namespace %s", added, b.namespace)
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), uncountedQuota) || n == countAttempts {
			return err
		}
		if retry.Sleep(ctx, countPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// addedTo describes what the cluster added to a pod, or returns "" if that can neither run code in
// the pod nor be read there.
func addedTo(asked, made *corev1.Pod) string {
	if has := made.Spec; (has.HostNetwork || has.HostPID || has.HostIPC) && !asked.Spec.HostNetwork {
		return "the node's namespaces"
	}
	for _, kind := range []struct {
		name       string
		asked, has []string
	}{
		{"the init container", namesOf(asked.Spec.InitContainers), namesOf(made.Spec.InitContainers)},
		{"the container", namesOf(asked.Spec.Containers), namesOf(made.Spec.Containers)},
		{"the volume", volumesOf(asked), volumesOf(made)},
	} {
		for _, name := range kind.has {
			if !slices.Contains(kind.asked, name) {
				return kind.name + " " + strconv.Quote(name)
			}
		}
	}
	return ""
}

// namesOf describes containers by their names and images, which the cluster must not change.
func namesOf(containers []corev1.Container) (all []string) {
	for _, c := range containers {
		all = append(all, c.Name+" of "+c.Image)
	}
	return all
}

func volumesOf(pod *corev1.Pod) (all []string) {
	for _, v := range pod.Spec.Volumes {
		all = append(all, v.Name)
	}
	return all
}

// deletePod deletes a pod, and returns when it is gone.
func (b *Backend) deletePod(ctx context.Context, f *followed) error {
	if _, gone, _ := f.last(); gone {
		return nil
	}
	pods := b.client.CoreV1().Pods(b.namespace)
	err := pods.Delete(ctx, f.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete pod %s: %w", f.name, err)
	}
	for {
		patient, cancel := context.WithTimeout(ctx, goneWithin)
		_, _, waited := f.await(patient, func(_ *corev1.Pod, gone bool) bool { return gone })
		cancel()
		if waited == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("pod %s is not gone: %w", f.name, cmp.Or(err, ctx.Err()))
		}
		err = deleteLost(ctx, pods, f.name)
	}
}

// pipe is a pod's attached stdin and stdout.
type pipe struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
	err    error // why the attachment broke; nil if the container's output ended; set before done is closed
}

// attach attaches to a pod's process 1.
func (b *Backend) attach(pod string, stderr io.Writer) (*pipe, error) {
	url := b.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(b.namespace).Name(pod).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: containerName, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(b.rest, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipe{stdin: inW, stdout: outR, cancel: cancel, done: make(chan struct{})}
	go func() {
		p.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW, Stderr: stderr})
		end := p.err
		if end == nil {
			end = io.EOF
		}
		_ = outW.CloseWithError(end)
		_ = inR.CloseWithError(io.ErrClosedPipe)
		close(p.done)
	}()
	return p, nil
}

func (p *pipe) Read(b []byte) (int, error)  { return p.stdout.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Close closes the attachment. The node then closes the container's stdin.
func (p *pipe) Close() error {
	err := errors.Join(p.stdin.Close(), p.stdout.Close())
	p.cancel()
	<-p.done
	return err
}

// broke returns why the attachment broke, or nil if it has not, or if the container ended it.
func (p *pipe) broke() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// exitOf returns how a pod ended whose guest no longer answers. It only uses sources that programs
// in the pod cannot influence: the guard of the mux, the API's record of who ended the pod, and
// whether the connection to it broke.
func (c *startedPod) exitOf(ctx context.Context) sandbox.Exit {
	if exit, is := guests.Breach(c.Guest); is {
		return exit
	}
	if err := c.backend.answers(ctx); err != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the cluster's API went away: " + err.Error()}
	}
	if reason := c.backend.policy.broken(); reason != "" {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its network was opened: " + reason}
	}
	// An exiting kubelet closes its attachments, and the API reports them as closed by their
	// containers.
	pods := c.backend.client.CoreV1().Pods(c.backend.namespace)
	if err := askNode(ctx, pods, c.followed.name); isSilent(err) {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "its node does not answer: " + err.Error()}
	}
	patient, cancel := context.WithTimeout(ctx, reportedWithin)
	defer cancel()
	pod, gone, err := c.followed.await(patient, func(pod *corev1.Pod, gone bool) bool { return deleted(pod, gone) || over(pod) })
	if err == nil {
		return judge(pod, gone, c.Guest.Err(), c.pipe.broke())
	}
	if err := askNode(ctx, pods, c.followed.name); err != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "its node does not answer: " + err.Error()}
	}
	if broke := c.pipe.broke(); broke != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the connection to its pod broke: " + broke.Error()}
	}
	return guests.ByItself(c.Guest.Err())
}

// reportedWithin is how long a node may take to report a container's end.
const reportedWithin = 6 * time.Second

// judge determines who ended a pod that has ended or is being deleted. pod is the API's last state
// of it, reason is why the guest's session ended, and broke is why the connection broke, or nil.
func judge(pod *corev1.Pod, gone bool, reason, broke error) sandbox.Exit {
	if pod != nil {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
				return disrupted(condition)
			}
		}
		switch pod.Status.Reason {
		case "Evicted":
			if strings.Contains(pod.Status.Message, "exceeds the limit") || strings.Contains(pod.Status.Message, "exceeds the total limit") {
				return sandbox.Exit{Cause: sandbox.ByItself, Message: "its pod was evicted: " + pod.Status.Message}
			}
			return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its pod was evicted: " + pod.Status.Message}
		case "NodeLost", "NodeShutdown", "Terminated", "Shutdown":
			return sandbox.Exit{Cause: sandbox.ByEngine, Message: "its node went away: " + pod.Status.Message}
		}
		if pod.DeletionTimestamp == nil && !gone {
			if status := statusOf(pod); status != nil && status.State.Terminated != nil {
				return ofCode(status.State.Terminated, reason, broke)
			}
		}
	}
	if gone || pod.DeletionTimestamp != nil {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its pod was deleted through the cluster's API"}
	}
	return guests.ByItself(reason)
}

func disrupted(c corev1.PodCondition) sandbox.Exit {
	how := map[string]string{
		"PreemptionByScheduler": "was preempted", "EvictionByEvictionAPI": "was evicted through the cluster's API",
		"DeletionByTaintManager": "was deleted because of a taint of its node", "DeletionByPodGC": "was deleted because its node is gone",
		"TerminationByKubelet": "was ended by its node",
	}[c.Reason]
	if how == "" {
		how = "was disrupted (" + c.Reason + ")"
	}
	cause := sandbox.FromOutside
	if c.Reason == "DeletionByTaintManager" || c.Reason == "DeletionByPodGC" {
		cause = sandbox.ByEngine
	}
	return sandbox.Exit{Cause: cause, Message: strings.TrimSuffix("its pod "+how+": "+c.Message, ": ")}
}

// ofCode determines it from the exit of process 1. Process 1 exits with 0 when its stdin ends,
// which either it or a broken connection may cause.
func ofCode(end *corev1.ContainerStateTerminated, reason, broke error) sandbox.Exit {
	switch {
	case end.Reason == oomKilled:
		return sandbox.Exit{Cause: sandbox.ByItself, Message: "its container was out of memory"}
	case end.ExitCode == 0 && broke != nil:
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the connection to its pod broke: " + broke.Error()}
	}
	return guests.ByItself(reason)
}

const oomKilled = "OOMKilled"
