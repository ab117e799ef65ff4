package kubernetes

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/sandbox/kube"
)

// Garbage is what [GC] found.
type Garbage struct {
	Runs []string `json:"runs"` // ids of dead runs, whose pods were removed
	Live []string `json:"live"` // ids of live runs
}

// GC removes the leases of dead runs, and with them their pods. It never touches live runs.
func GC(ctx context.Context, c kube.Settings) (g Garbage, err error) {
	_, client, namespace, err := connect(c)
	if err != nil {
		return g, err
	}
	leases, err := client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelRun})
	if err != nil {
		return g, err
	}
	clock := newLease(client, namespace, "")
	if err := clock.setClock(ctx); err != nil {
		return g, err
	}
	var errs []error
	for _, found := range leases.Items {
		run := found.Labels[labelRun]
		if alive(&found, clock.now()) {
			g.Live = append(g.Live, run)
			continue
		}
		if err := newLease(client, namespace, run).remove(ctx, &found); err != nil {
			errs = append(errs, err)
			continue
		}
		g.Runs = append(g.Runs, run)
	}
	return g, errors.Join(errs...)
}

// Sweep removes the lease of one dead run, and with it its pods, from the cluster that the run's
// record describes, if KUBECONFIG names that cluster. It returns [sandbox.ErrAlive] if the run is
// alive.
func Sweep(ctx context.Context, engine map[string]string, run string) error {
	config, client, namespace, err := connect(kube.Settings{Namespace: engine["namespace"]})
	if err != nil || config.Host != engine["host"] {
		return err
	}
	return newLease(client, namespace, run).takeOver(ctx)
}
