package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// goneWithin is how long deleting a pod may take before its node is checked.
	goneWithin = 3 * endGrace * time.Second
	// lostSeconds is how long the cluster keeps a pod on an unreachable node.
	lostSeconds = 5
)

// askNode asks a pod's node about the pod. It returns nil if the pod's container is running.
func askNode(ctx context.Context, pods corev1client.PodInterface, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	none := int64(0)
	return pods.GetLogs(pod, &corev1.PodLogOptions{Container: containerName, TailLines: &none}).Do(ctx).Error()
}

// isSilent reports whether an error of askNode means that the API cannot reach the node.
func isSilent(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// deleteLost deletes a pod immediately if its node does not answer. Otherwise the API would keep
// the pod until its node reports its end, or the node is deleted.
func deleteLost(ctx context.Context, pods corev1client.PodInterface, pod string) error {
	if !isSilent(askNode(ctx, pods, pod)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	atOnce := int64(0)
	if err := pods.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &atOnce}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s, whose node does not answer: %w", pod, err)
	}
	return nil
}

// deleteLostOf calls deleteLost for the pods of a run that are being deleted.
func deleteLostOf(ctx context.Context, pods corev1client.PodInterface, run string) error {
	found, err := pods.List(ctx, metav1.ListOptions{LabelSelector: labelRun + "=" + run})
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range found.Items {
		if pod.DeletionTimestamp != nil {
			errs = append(errs, deleteLost(ctx, pods, pod.Name))
		}
	}
	return errors.Join(errs...)
}
