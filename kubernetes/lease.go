package kubernetes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// leaseSeconds is how long a run counts as alive after its lease was renewed.
	leaseSeconds = 60
	renewEvery   = 15 * time.Second
)

// lease is the run's Lease object, which owns its pods. The runner renews it. `waza gc` deletes
// leases that nobody renews; the cluster's garbage collection then deletes their pods.
type lease struct {
	client coordinationclient.LeaseInterface
	pods   corev1client.PodInterface
	name   string
	owner  metav1.OwnerReference // owner of the run's pods
	ahead  time.Duration         // how far the API's clock is ahead of this machine's
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

func leaseName(run string) string { return "waza-" + run }

func newLease(client kubernetes.Interface, namespace, run string) *lease {
	return &lease{client: client.CoordinationV1().Leases(namespace), pods: client.CoreV1().Pods(namespace), name: leaseName(run)}
}

// takeLease creates the lease of a run, which must not exist. With resume, it first removes an
// expired lease of the run and its pods.
func takeLease(ctx context.Context, client kubernetes.Interface, namespace, run string, resume bool) (*lease, error) {
	l := newLease(client, namespace, run)
	if resume {
		if err := l.takeOver(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.setClock(ctx); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	now, seconds, holder := metav1.NewMicroTime(l.now()), int32(leaseSeconds), fmt.Sprintf("%s/%d", host, os.Getpid())
	made, err := l.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Labels: map[string]string{labelRun: run, labelRole: "lease"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("lease of the run: %w; waza doctor --on kubernetes says what is missing", err)
	}
	block := true // with foreground deletion, the lease is deleted after its pods
	l.owner = metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: made.Name, UID: made.UID, BlockOwnerDeletion: &block}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.ended.Go(func() { l.renew(renewing) })
	return l, nil
}

// takeOver removes the lease of a dead run, and returns when its pods are gone too.
func (l *lease) takeOver(ctx context.Context) error {
	found, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lease of the run: %w", err)
	}
	if err := l.setClock(ctx); err != nil {
		return err
	}
	if alive(found, l.now()) {
		return fmt.Errorf("%w: %s renewed its lease less than %d s ago", sandbox.ErrAlive, holderOf(found), leaseSeconds)
	}
	return l.remove(ctx, found)
}

// setClock determines the API's time, to a second, from a dry-run creation of a lease. Leases use
// the API's time, because the clocks of the machines that read and renew them differ.
func (l *lease) setClock(ctx context.Context) error {
	would, err := l.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "waza-clock-"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("%w; waza doctor --on kubernetes says what is missing, and --print what to apply", err)
	}
	l.ahead = time.Until(would.CreationTimestamp.Time)
	return nil
}

func (l *lease) now() time.Time { return time.Now().Add(l.ahead) }

// remove deletes the lease if it has not changed since found, and returns when the lease and
// everything that it owns is gone.
func (l *lease) remove(ctx context.Context, found *coordinationv1.Lease) error {
	foreground := metav1.DeletePropagationForeground
	err := l.client.Delete(ctx, found.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
	})
	for asked := time.Now(); err == nil; {
		if _, err = l.client.Get(ctx, found.Name, metav1.GetOptions{}); err == nil {
			err = retry.Sleep(ctx, time.Second)
		}
		if err == nil && time.Since(asked) > goneWithin {
			err, asked = deleteLostOf(ctx, l.pods, found.Labels[labelRun]), time.Now()
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete the lease %s: %w", found.Name, err)
}

// alive reports whether a lease has been renewed in time.
func alive(l *coordinationv1.Lease, now time.Time) bool {
	if l.Spec.RenewTime == nil || l.DeletionTimestamp != nil {
		return false
	}
	return now.Sub(l.Spec.RenewTime.Time) < leaseSeconds*time.Second
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return "somebody"
	}
	return *l.Spec.HolderIdentity
}

// renew renews the lease until ctx ends. It retries after failures: while the API is unreachable,
// `waza gc` cannot reach it either.
func (l *lease) renew(ctx context.Context) {
	for retry.Sleep(ctx, renewEvery) == nil {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"renewTime":%q}}`, l.owner.UID, l.now().UTC().Format(metav1.RFC3339Micro))
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		_, _ = l.client.Patch(asked, l.name, mergePatch, []byte(patch), metav1.PatchOptions{})
		cancel()
	}
}

// close removes the lease. The cluster deletes everything that it still owns.
func (l *lease) close(ctx context.Context) error {
	l.stop()
	l.ended.Wait()
	background := metav1.DeletePropagationBackground
	err := l.client.Delete(ctx, l.name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &l.owner.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
