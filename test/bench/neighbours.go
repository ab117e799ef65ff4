package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// burn is the attacker that only uses processor time. The other attackers use as much, up
// to the limit of the container.
const burn = "burn"

// measureNeighbours runs trials alongside an attacker that exhausts the users or
// connections the kernel allows, and alternately alongside one that only uses as much
// processor time.
func (b *bench) measureNeighbours(ctx context.Context) ([]Figure, error) {
	calling, err := b.plan(ctx, settings{network: "bridge", agent: commandAgent(append([]string{"-url", "http://web/mcp"}, b.loadArgs(b.sizes.Calls)...))})
	if err != nil {
		return nil, err
	}
	starting, err := b.plan(ctx, oneCall("bridge"))
	if err != nil {
		return nil, err
	}
	kinds := []string{burn, "users", "connections"}
	rates, starts := map[string][]float64{}, map[string][]float64{}
	for range b.sizes.Neighbours {
		for _, kind := range kinds {
			err := b.withAttacker(ctx, kind, func(ctx context.Context) error {
				out, err := b.trialsOf(ctx, calling, 1, 1, nil)
				if err != nil {
					return err
				}
				report, err := readReport(out.dirs[0])
				if err != nil {
					return err
				}
				rates[kind] = append(rates[kind], float64(len(report.Micros))/(time.Duration(report.Ended-report.Began)*time.Microsecond).Seconds())
				if out, err = b.trialsOf(ctx, starting, 1, 1, nil); err != nil {
					return err
				}
				starts[kind] = append(starts[kind], out.took.Seconds())
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("beside %s: %w", kind, err)
			}
		}
	}
	var figures []Figure
	for _, kind := range kinds[1:] {
		calls := Figure{
			Name: "calls_beside." + kind, What: "calls a second of a trial beside an attacker that takes " + kind + ", against beside one that burns as much processor time",
			Value: median(rates[kind]) / median(rates[burn]), Samples: map[string][]float64{"attacked": rates[kind], "burned": rates[burn]},
		}
		start := Figure{
			Name: "start_beside." + kind, What: "a whole trial of one call beside the same, against the same",
			Value: median(starts[kind]) / median(starts[burn]), Samples: map[string][]float64{"attacked_s": starts[kind], "burned_s": starts[burn]},
		}
		figures = append(figures, calls.atLeast(0.8), start.atMost(1.2))
	}
	return figures, nil
}

// withAttacker calls use while a trial runs with the attacker as its agent.
func (b *bench) withAttacker(ctx context.Context, kind string, use func(context.Context) error) error {
	attack, err := b.plan(ctx, settings{network: "bridge", agent: fmt.Sprintf("  executor: command\n  agent: {command: /attacker, args: [press, %s], prompt: stdin}", kind)})
	if err != nil {
		return err
	}
	b.trials++
	attack.Number = b.trials
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	attacking, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		o := runner.Options{Dir: dir, Workers: 1, Progress: func(runner.Update) {}}
		o.Host.Secrets = b.secrets
		_, err := runner.RunTrials(attacking, b.backend, []*plan.Trial{attack}, o)
		cancel(errors.Join(errors.New("the attacker ended"), err)) // later measurements are invalid
	}()
	defer func() { stop(); <-ended; cancel(nil) }()
	for !began(dir) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return use(ctx)
}

// began reports whether the agent of a run's trial has written output.
func began(dir string) bool {
	said, _ := filepath.Glob(filepath.Join(dir, "trials", "*", "*", evidence.StdoutFile))
	for _, file := range said {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}
