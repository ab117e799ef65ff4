// Package kubernetes runs trials on a Kubernetes cluster: each container of a trial is a pod of its
// own. Process 1 of a pod is the guest, which the runner reaches through one attachment.
//
// Pods have no network: the namespace's only policy denies all traffic, and the runner carries what
// agent and servers exchange. The package installs nothing in the cluster.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
)

const (
	// runsAtOnce is the number of blocks of users for runs. It is so large that concurrent runs seldom
	// share a block, and their certificates do not find each other's pods.
	runsAtOnce = 1 << 20

	mergePatch = types.MergePatchType
)

// Options configures how a run uses the cluster.
type Options struct {
	Run string // unique id of the run
	// Resume means that an interrupted run with this id is resumed. Open fails with sandbox.ErrAlive
	// if it is still running.
	Resume bool
	Config kube.Settings
	Images guests.Images
	// AllowWeak names the attacks that may get out of pods.
	AllowWeak []string
	Say       func(string) // prints a message to the user; may be nil
}

// Backend runs sandboxes on a cluster. It implements sandbox.Backend and optional interfaces of
// backends.
type Backend struct {
	run       string
	config    kube.Settings
	images    guests.Images
	weak      []string
	rest      *rest.Config
	client    kubernetes.Interface
	namespace string
	version   string
	lease     *lease
	watch     *watch
	policy    *policy
	queue     *queue
	room      *room
	users     guests.Pool
	count     atomic.Int64 // number of pods created, for their names
	// sharesUsers is why pods get no user namespaces; nil while they do.
	sharesUsers atomic.Pointer[string]
	givesUsers  atomic.Bool  // some pod has a user namespace
	askedEvents atomic.Int64 // when events were last requested, in nanoseconds

	mu   sync.Mutex
	live map[*trialSandbox]bool // guarded by mu

	closeOnce sync.Once
	closeErr  error
}

var _ interface {
	sandbox.Backend
	sandbox.Reconnector
	sandbox.HostProber
} = (*Backend)(nil)

// connect reads the client's configuration as kubectl does, or that of the pod that this process
// runs in. It also returns the namespace of trials.
func connect(c kube.Settings) (*rest.Config, kubernetes.Interface, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, nil, "", fmt.Errorf("%w: %w; set KUBECONFIG, or config.isolation.kubernetes.context to a context of it", ErrNotConfigured, err)
	}
	config.QPS, config.Burst, config.UserAgent = 50, 100, "waza"
	client, err := kubernetes.NewForConfig(config)
	return config, client, nameOf(c), err
}

// nameOf returns the name of the namespace of trials.
func nameOf(c kube.Settings) string { return cmp.Or(c.Namespace, "waza") }

// ErrNotConfigured means that no configuration names a cluster.
var ErrNotConfigured = errors.New("no cluster is configured")

// Open connects to the cluster and takes what a run needs: its lease, and the watches.
func Open(ctx context.Context, o Options) (*Backend, error) {
	config, client, namespace, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	b := &Backend{
		run: o.Run, config: o.Config, images: o.Images, weak: o.AllowWeak, rest: config, client: client, namespace: namespace,
		queue: newQueue(o.Say), room: newRoom(), live: map[*trialSandbox]bool{}, users: usersFor(o.Run, o.Images.FirstUser),
	}
	b.policy = &policy{cut: b.cut}
	if err := b.connect(ctx, o); err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Backend) connect(ctx context.Context, o Options) error {
	version, err := b.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the cluster at %s does not answer: %w", b.rest.Host, err)
	}
	b.version = version.GitVersion
	if lacking, err := lackingRights(ctx, b.client, b.namespace); err == nil && len(lacking) > 0 {
		return fmt.Errorf("%s; have an administrator bind you to the role that waza doctor --on kubernetes --print prints", lacking.in(b.namespace))
	}
	if b.lease, err = takeLease(ctx, b.client, b.namespace, o.Run, o.Resume); err != nil {
		return err
	}
	b.policy.take(nil)
	if b.watch, err = startWatch(ctx, b.client, b.namespace, labelRun+"="+o.Run, b.policy.take); err != nil {
		return fmt.Errorf("watch the namespace %s: %w", b.namespace, err)
	}
	if why := b.policy.broken(); why != "" {
		return explain(b.namespace, why)
	}
	return nil
}

// usersFor returns the users of a run's block. Another run may have the same block, even on the
// same node, since no object in the cluster reserves it.
func usersFor(run string, first int) guests.Pool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run))
	return guests.NewUserPool(first + int(hash.Sum32()%runsAtOnce)*guests.MaxContainers)
}

// Close releases what belongs to the whole run. It may be called more than once.
func (b *Backend) Close(ctx context.Context) error {
	b.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
		defer cancel()
		if b.watch != nil {
			b.watch.close()
		}
		if b.lease != nil {
			b.closeErr = b.lease.close(ctx)
		}
	})
	return b.closeErr
}

// Prepare implements sandbox.Backend. It fails if the cluster lacks an image, or if sandboxes need
// something that pods do not support.
func (b *Backend) Prepare(_ context.Context, all []*sandbox.Spec, _ func(string)) error {
	if missing := b.images.Missing(all); len(missing) > 0 {
		return fmt.Errorf("the cluster has no image %s; run waza images push for this eval again", strings.Join(missing, ", "))
	}
	for _, s := range all {
		if s.Network == sandbox.NetworkBridge {
			return errBridge
		}
	}
	return nil
}

var errBridge = errors.New("pods of a trial have no network between them: leave config.isolation.network out, or set it to airtight")

// Open implements sandbox.Opener.
func (b *Backend) Open(ctx context.Context, t *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	if why := b.policy.broken(); why != "" {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrEngineGone, explain(b.namespace, why))
	}
	if err := b.room.exhausted(); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrEngineGone, err)
	}
	if t.Network == sandbox.NetworkBridge {
		return nil, errBridge
	}
	open := func(alone bool) (sandbox.Sandbox, error) { return b.openPods(ctx, t, observe, &share{alone: alone}) }
	if t.Probe { // a certificate's sandboxes are not closed to make room
		return open(true)
	}
	return b.room.openSandbox(ctx, b, open)
}

func (b *Backend) openPods(ctx context.Context, t *sandbox.Spec, observe func(evidence.Event), room *share) (sandbox.Sandbox, error) {
	pods, err := planTrial(t, b.planInput())
	if err != nil {
		for _, p := range pods {
			b.giveBack(p)
		}
		return nil, err
	}
	s := &trialSandbox{
		Sandbox: guests.Sandbox{Spec: t, Report: observe, Servers: guests.Airtight},
		backend: b, plan: pods, pods: map[string]*startedPod{},
	}
	if err := s.apply(ctx, room); err != nil {
		err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		if ctx.Err() == nil && b.answers(ctx) != nil {
			err = fmt.Errorf("%w: %w", sandbox.ErrEngineGone, err)
		}
		return nil, err
	}
	return s, nil
}

func (b *Backend) planInput() planInput {
	return planInput{run: b.run, owner: b.lease.owner, config: b.config, images: b.images, user: b.users.Get, newName: b.newName, ownUsers: b.sharesUsers.Load() == nil}
}

func (b *Backend) newName() string {
	return leaseName(b.run) + "-" + strconv.FormatInt(b.count.Add(1), 10)
}

// cut ends every container, because its network was opened.
func (b *Backend) cut(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.live {
		s.cut(why)
	}
}

// busy reports whether a trial is running whose end would free resources.
func (b *Backend) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.live {
		if s.Spec.Lifetime == sandbox.LifeOfTrial {
			return true
		}
	}
	return false
}

// answers returns nil if the API answers.
func (b *Backend) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return b.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// Reconnect implements sandbox.Reconnector. It does not wait for a network that was opened or a
// quota that is used up.
func (b *Backend) Reconnect(ctx context.Context) error {
	for pause := time.Second; ; pause = min(2*pause, 5*time.Second) {
		if why := b.policy.broken(); why != "" {
			return explain(b.namespace, why)
		}
		if err := b.room.exhausted(); err != nil {
			return err
		}
		err := b.answers(ctx)
		if err == nil {
			return nil
		}
		if retry.Sleep(ctx, pause) != nil {
			return fmt.Errorf("the cluster's API does not come back: %w", err)
		}
	}
}

// Describe names the cluster and the images' guest.
func (b *Backend) Describe() map[string]string {
	return map[string]string{
		"engine": "kubernetes", "version": b.version, "host": b.rest.Host, "namespace": b.namespace,
		"guest": b.images.Images[""].Reference, "transport": "attach",
		"runtime_class": b.config.RuntimeClass, "remove_interface": strconv.FormatBool(b.config.RemoveInterface),
	}
}

// Images returns the images of the eval, by reference.
func (b *Backend) Images() evidence.ImageRecords { return b.images.Records() }

// Platform implements runner.Installer. Pods have the platform that the images were made for.
func (b *Backend) Platform() string { return "linux/" + runtime.GOARCH }

// Resolve implements runner.Installer. It always fails, since the cluster builds nothing.
func (b *Backend) Resolve(_ context.Context, i images.Image, _ *images.Lock) (images.Entry, error) {
	return images.Entry{}, fmt.Errorf("%s is not in %s yet: run waza images save or push for this eval, which resolves and builds it", i, images.LockName)
}

// HostProbe implements sandbox.HostProber. The pod runs on the node of the certificate's other
// pods, and has the same walls except for its network.
func (b *Backend) HostProbe(ctx context.Context) (sandbox.HostProbe, error) {
	in := b.planInput()
	in.config.RemoveInterface, in.ownUsers = false, false
	p, err := in.plan(&sandbox.Spec{Task: "waza-probe", Number: 1, Probe: true}, sandbox.ContainerSpec{Name: "host", Role: "host-probe", Container: sandbox.Container{CPUs: 0.1, Memory: 128 << 20}})
	if err != nil {
		return nil, err
	}
	p.pod.Spec.HostNetwork, p.pod.Spec.Hostname = true, ""
	p.pod.Spec.HostAliases, p.pod.Spec.DNSPolicy, p.pod.Spec.DNSConfig = nil, corev1.DNSDefault, nil
	p.pod.Spec.SecurityContext.Sysctls = nil // they would apply to the node
	started, err := b.start(ctx, p, &share{alone: true})
	if err != nil {
		return nil, fmt.Errorf("host probe: %w", err)
	}
	return started, nil
}

// giveBack returns a deleted pod's user to the pool.
func (b *Backend) giveBack(p podPlan) {
	if p.insists == "" {
		b.users.Put(p.user)
	}
}

// outside returns the addresses that a pod must not reach: its node and the API.
func (b *Backend) outside(f *followed) (aims []string) {
	if pod, _, _ := f.last(); pod != nil {
		for _, at := range pod.Status.HostIPs {
			aims = append(aims, net.JoinHostPort(at.IP, kubeletPort))
		}
	}
	if api, err := url.Parse(b.rest.Host); err == nil && net.ParseIP(api.Hostname()) != nil {
		aims = append(aims, net.JoinHostPort(api.Hostname(), cmp.Or(api.Port(), "443")))
	}
	return aims
}
