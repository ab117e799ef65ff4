package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox/local"
)

// backend is what a run's trials run on: containers, or processes of this machine.
type backend interface {
	trial.Backend
	// Prepare has everything there that trials need, or says what is missing.
	Prepare(ctx context.Context, trials []*plan.Trial, say func(string)) error
	// Describe and Images are for run.json.
	Describe() map[string]string
	Images() evidence.ImageRecords
	Close(ctx context.Context) error
}

func (j *job) openBackend(ctx context.Context) (backend, error) {
	if j.options.isolate {
		return containers.Open(ctx, containers.Options{
			Run: j.runID, Resume: j.resumed != nil, Guest: j.guest, Digest: j.digest,
			Network: buildNetwork(j.lookup, j.secrets), Redact: j.secrets.String,
		})
	}
	return local.Open(local.Options{Run: j.runID, Resume: j.resumed != nil, Without: plan.KeyVariables(j.trials)})
}

// warnOf says what failed and harms no trial.
func (j *job) warnOf(err error) { fmt.Fprintf(j.stderr, "warning: %s\n", text.Indented(err.Error())) }

// warn says before anything starts that nothing will be isolated, and what of the
// eval has no effect then.
func (j *job) warn() {
	if j.options.isolate {
		return
	}
	fmt.Fprintln(j.stderr, "without --isolate nothing is isolated: agents and servers run as processes of yours, with your files, network and environment")
	if names := plan.NotEnforced(j.trials); len(names) > 0 {
		fmt.Fprintf(j.stderr, "without --isolate these have no effect: %s\n", strings.Join(names, ", "))
	}
}
