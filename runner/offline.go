package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
)

// checkOffline returns a [Mistake] that lists everything that the trials need and that would have
// to be fetched, if ctx is offline. instead is the command that fetches it beforehand.
func (h Host) checkOffline(ctx context.Context, instead string, trials []*plan.Trial, needs []plan.Need) error {
	missing, err := h.missing(ctx, instead, trials, needs)
	if err != nil {
		return err
	}
	return refusedOffline(missing)
}

// refusedOffline returns an error that lists what is missing, or nil if nothing is.
func refusedOffline(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return Mistake{fmt.Errorf("%w, and this is missing:\n%s", offline.ErrOffline, strings.Join(missing, "\n"))}
}

// missing returns what the trials need and would have to fetch, each with what to do instead. It
// returns nothing unless ctx is offline.
func (h Host) missing(ctx context.Context, instead string, trials []*plan.Trial, needs []plan.Need) (all []string, err error) {
	if !offline.Is(ctx) || len(trials) == 0 {
		return nil, nil
	}
	if trials[0].Kubernetes != nil {
		return nil, mistake("--offline is about this machine and its engine, and a cluster's nodes pull their images themselves; leave out --offline, or --on kubernetes")
	}
	var absent []string
	for _, n := range needs {
		if n.Image != "" {
			absent = append(absent, n.Image)
		}
	}
	if len(absent) > 0 {
		if absent, err = h.Absent(ctx, absent); err != nil {
			return nil, orCause(ctx, err)
		}
	}
	for _, n := range needs {
		if n.Image == "" || slices.Contains(absent, n.Image) {
			all = append(all, text.Inert(h.Secrets.String(n.What))+": "+cmp.Or(n.Instead, instead))
		}
	}
	return all, nil
}

// checkOffline returns a [Mistake] that lists everything that the runs of b need and would have to
// fetch, if ctx is offline. It leaves other errors in an eval to its run.
func (b Batch) checkOffline(ctx context.Context) error {
	if !offline.Is(ctx) {
		return nil
	}
	var all []string
	for _, eval := range b.Evals {
		for _, v := range b.Variants {
			j, err := b.plan(ctx, eval, v.set)
			if err != nil {
				break
			}
			missing, err := j.Request.Host.missing(ctx, getting(eval), j.Trials, plan.Needs(j.Trials))
			if err != nil {
				return err
			}
			all = append(all, slices.DeleteFunc(missing, func(one string) bool { return slices.Contains(all, one) })...)
		}
	}
	return refusedOffline(all)
}

// getting returns the command that fetches what runs of an eval need.
func getting(eval string) string { return "waza images build " + text.ShellWord(eval) }
