package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
)

// RunnerPath is waza with this backend, in the image of runners.
const RunnerPath = "/waza-kubernetes"

const (
	// runnerUser is who runners are in their pods.
	runnerUser = 65532
	// runnerMemory is how much memory a runner may have.
	runnerMemory = 1 << 30
	// runnerGrace is how many seconds a runner whose pod is deleted may take to take its trials'
	// pods down and to send what it has.
	runnerGrace = 60
	// keptSeconds is how long the cluster keeps a Job that has ended by itself.
	keptSeconds = 15

	// Interrupt is the byte that asks a runner to end, on its stdin behind what it reads first.
	Interrupt = 1
)

// runnersOf returns the namespace of the runners of shards. They need a network, which that of
// trials denies.
func runnersOf(c eval.Kubernetes) string { return nameOf(c) + "-runners" }

// runnersAccount is the service account of runners, which may do in the namespace of trials what
// a run needs.
const runnersAccount = "waza-runner"

// Shards asks for the runners of a run's shards: the pods of one Job.
type Shards struct {
	Run    string // the run's id
	Of     int
	Config eval.Kubernetes
	Image  string
	// Stdin is what each runner reads first. Its stdin stays open behind that: it ends at the
	// byte [Interrupt], and where its stdin does.
	Stdin []byte
	// Take reads all that the runner of a shard writes.
	Take func(shard int, r io.Reader) error
	// Stderr is where the stderr of a shard's runner goes.
	Stderr func(shard int) io.Writer
	Say    func(string)
}

// ShortRun returns a run's id without its name, which goes into the names of objects.
func ShortRun(run string) string {
	const second, random = len("20060102-150405"), len("-abcdef")
	if len(run) <= second+random {
		return run
	}
	return run[:second] + run[len(run)-random:]
}

// RunShards runs the shards, and returns why each did not complete; nil for one that did. Runners
// end when ctx does. When RunShards returns, the Job is deleted. If this process dies, its
// runners end with their stdin, and the cluster deletes the Job: it has a deadline, which is
// moved while this process lives.
func RunShards(ctx context.Context, s Shards) ([]error, error) {
	config, client, _, err := connect(s.Config)
	if err != nil {
		return nil, err
	}
	namespace := runnersOf(s.Config)
	if why, err := examineRunners(ctx, client, s.Config); err != nil || why.Fix != "" {
		if err == nil {
			err = fmt.Errorf("%s; apply what waza doctor --on kubernetes --shards --print prints", why.Message)
		}
		return nil, err
	}
	b := &Backend{run: ShortRun(s.Run), config: s.Config, rest: config, client: client, namespace: namespace}
	name := leaseName(b.run)
	index := func(pod *corev1.Pod) string { return pod.Labels[batchv1.JobCompletionIndexAnnotation] }
	if b.watch, err = startWatch(ctx, client, namespace, batchv1.JobNameLabel+"="+name, index, nil); err != nil {
		return nil, fmt.Errorf("watch the namespace %s: %w", namespace, err)
	}
	defer b.watch.close()
	runners := make([]*startedPod, s.Of)
	for i := range runners {
		runners[i] = &startedPod{backend: b, followed: b.watch.follow(strconv.Itoa(i))}
	}
	jobs := client.BatchV1().Jobs(namespace)
	job, err := jobs.Create(ctx, s.job(name), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("the Job of the shards: %w", explainRefusal(s.Config, err))
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { moveDeadline(renewing, jobs, job) })
	errs := make([]error, s.Of)
	var shards sync.WaitGroup
	for i, r := range runners {
		shards.Go(func() { errs[i] = s.run(ctx, i+1, r) })
	}
	shards.Wait()
	stop()
	running.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	err = jobs.Delete(ending, name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &job.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Say(fmt.Sprintf("the Job %s is left for the cluster to delete: %v", name, err))
	}
	return errs, nil
}

// job returns the Job of the shards.
func (s Shards) job(name string) *batchv1.Job {
	in := planInput{config: s.Config}
	of, indexed, never := int32(s.Of), batchv1.IndexedCompletion, int32(0)
	deadline, kept, replaced := int64(leaseSeconds), int32(keptSeconds), batchv1.Failed
	no, yes, grace, user := false, true, int64(runnerGrace), int64(runnerUser)
	labels := map[string]string{labelRun: ShortRun(s.Run), labelRole: "runner"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{
			Completions: &of, Parallelism: &of, CompletionMode: &indexed,
			BackoffLimitPerIndex: &never, PodReplacementPolicy: &replaced, // a shard that failed leaves the others alone
			ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &kept,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: runnersAccount,
					EnableServiceLinks: &no, TerminationGracePeriodSeconds: &grace,
					NodeSelector: s.Config.NodeSelector, Tolerations: tolerations(s.Config.Tolerations),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: containerName, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{RunnerPath, "shard"}, WorkingDir: scratchDir, Env: []corev1.EnvVar{{Name: "HOME", Value: scratchDir}},
						Stdin: true, StdinOnce: true, SecurityContext: walls(), Resources: in.resources(sandbox.Container{CPUs: 1, Memory: runnerMemory}),
						VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: scratchDir}},
					}},
					Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
	job.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(runnerMemory/4, resource.BinarySI)
	if s.Config.Queue != "" {
		job.Labels = map[string]string{labelRun: ShortRun(s.Run), labelRole: "runner", labelQueue: s.Config.Queue}
	}
	return job
}

// moveDeadline moves the deadline of a Job until ctx ends, so that the Job ends soon after this
// process if that dies.
func moveDeadline(ctx context.Context, jobs batchclient.JobInterface, job *batchv1.Job) {
	for began := time.Now(); retry.Sleep(ctx, renewEvery) == nil; {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"activeDeadlineSeconds":%d}}`, job.UID, int64(time.Since(began).Seconds())+leaseSeconds)
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		now, err := jobs.Patch(asked, job.Name, mergePatch, []byte(patch), metav1.PatchOptions{})
		cancel()
		if err == nil && now.Status.StartTime == nil { // a queue holds it; the deadline counts from its start
			began = time.Now()
		}
	}
}

// run runs one shard in the pod that its Job makes.
func (s Shards) run(ctx context.Context, shard int, c *startedPod) error {
	if err := s.awaitNode(ctx, shard, c); err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.awaitRunning(starting); err != nil {
		return err
	}
	pod, _, _ := c.followed.last()
	pipe, err := c.backend.attach(pod.Name, s.Stderr(shard))
	if err != nil {
		return fmt.Errorf("attach to pod %s: %w", pod.Name, err)
	}
	defer func() { _ = pipe.Close() }()
	go func() { _, _ = pipe.Write(s.Stdin) }() // ends with the pipe
	taken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		go func() { _, _ = pipe.Write([]byte{Interrupt}) }()
		select {
		case <-taken:
		case <-time.After(runnerGrace * time.Second):
			_ = pipe.Close()
		}
	})
	defer stop()
	err = s.Take(shard, pipe)
	close(taken)
	ended := c.ended(context.WithoutCancel(ctx), pipe)
	if ended != nil {
		return ended
	}
	return err
}

// awaitNode waits until a shard's pod has a node, and says why it has none. Only a queue makes it
// wait longer than pods of trials.
func (s Shards) awaitNode(ctx context.Context, shard int, c *startedPod) error {
	said := false
	for waited := time.Duration(0); ; waited += pendingPatience {
		patient, cancel := context.WithTimeout(ctx, pendingPatience)
		pod, gone, err := c.followed.await(patient, func(pod *corev1.Pod, gone bool) bool { return gone || pod.Spec.NodeName != "" || over(pod) })
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && deleted(pod, gone):
			return errors.New(judge(pod, gone, nil, nil).Message)
		case err == nil:
			return nil
		case waited > pendingLimit && s.Config.Queue == "":
			return fmt.Errorf("its pod has no node: %s", schedulersWords(pod))
		}
		if !said {
			s.Say(fmt.Sprintf("shard %d waits for a node: %s", shard, schedulersWords(pod)))
			said = true
		}
	}
}

// ended returns why a runner did not run its shard to the end; nil if it did.
func (c *startedPod) ended(ctx context.Context, p *pipe) error {
	ctx, cancel := context.WithTimeout(ctx, reportedWithin)
	defer cancel()
	pod, gone, err := c.followed.await(ctx, func(pod *corev1.Pod, gone bool) bool { return deleted(pod, gone) || over(pod) })
	switch {
	case err != nil && p.broke() != nil:
		return fmt.Errorf("the connection to its pod broke: %w", p.broke())
	case err != nil:
		return nil // its output ended as it is to
	case pod == nil || deleted(pod, gone) || pod.Status.Reason != "":
		return errors.New(judge(pod, gone, nil, nil).Message)
	}
	status := statusOf(pod)
	switch {
	case status == nil || status.State.Terminated == nil:
		return errors.New("its pod ended: " + describe(pod))
	case status.State.Terminated.Reason == oomKilled:
		return errors.New("its runner was out of memory; lower --workers")
	case status.State.Terminated.ExitCode != 0:
		return fmt.Errorf("its runner ended with exit code %d", status.State.Terminated.ExitCode)
	}
	return nil
}

// examineRunners looks at what runners of shards need, and who starts them.
func examineRunners(ctx context.Context, client kubernetes.Interface, c eval.Kubernetes) (Finding, error) {
	namespace := runnersOf(c)
	lacking, err := lackingRights(ctx, client, namespace, launcherRights())
	if err != nil {
		return Finding{}, err
	}
	if len(lacking) > 0 {
		return Finding{"shards", lacking.in(namespace), "Have an administrator bind you to the role waza-launcher that waza doctor --on kubernetes --shards --print prints."}, nil
	}
	_, err = client.CoreV1().ServiceAccounts(namespace).Get(ctx, runnersAccount, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Finding{"shards", "the namespace " + namespace + " has no service account " + runnersAccount, "Apply what waza doctor --on kubernetes --shards --print prints."}, nil
	}
	return Finding{"shards", "all that is needed to start runners of shards in the namespace " + namespace, ""}, err
}
