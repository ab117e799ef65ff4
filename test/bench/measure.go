package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/runner"
)

// measureTrials measures, alternately, a trial on each kind of network, its floor, and the
// same services under docker-compose.
func (b *bench) measureTrials(ctx context.Context) ([]Figure, error) {
	var subjects []subject
	for _, network := range []string{"bridge", "airtight"} {
		s, err := b.newSubject(ctx, network)
		if err != nil {
			return nil, err
		}
		if _, err := b.floor(ctx, s.floor); err != nil { // warm-up, like the trial in newSubject
			return nil, err
		}
		subjects = append(subjects, s)
	}
	if err := b.compose.write(b.dir, b.image); err != nil {
		return nil, err
	}
	trials, floors := map[string][]float64{}, map[string][]float64{}
	var composes []float64
	for round := range b.sizes.Trials {
		for _, s := range subjects {
			out, err := b.trialsOf(ctx, s.trial, 1, 1, nil)
			if err != nil {
				return nil, err
			}
			took, err := b.floor(ctx, s.floor)
			if err != nil {
				return nil, fmt.Errorf("floor: %w", err)
			}
			trials[s.network] = append(trials[s.network], out.took.Seconds())
			floors[s.network] = append(floors[s.network], took.Seconds())
		}
		if round < b.sizes.Composes {
			took, err := b.compose.upAndDown(ctx)
			if err != nil {
				return nil, err
			}
			composes = append(composes, took.Seconds())
		}
	}
	var figures []Figure
	for _, s := range subjects {
		f := Figure{
			Name: "trial_vs_floor." + s.network, What: fmt.Sprintf("a trial on %s, against %s by bare engine calls", s.network, s.floor),
			Value:   median(trials[s.network]) / median(floors[s.network]),
			Samples: map[string][]float64{"trial_s": trials[s.network], "floor_s": floors[s.network]},
		}
		figures = append(figures, f.atMost(map[string]float64{"bridge": 1.05, "airtight": 1.1}[s.network]))
	}
	f := Figure{
		Name: "trial_vs_compose", What: "a trial on bridge, against docker-compose up and down of the same services",
		Value:   median(trials["bridge"]) / median(composes),
		Samples: map[string][]float64{"trial_s": trials["bridge"], "compose_s": composes},
	}
	return append(figures, f.atMost(0.25)), nil
}

// measureThroughput measures the rate of trials and of floors for several numbers of
// workers, on each kind of network.
func (b *bench) measureThroughput(ctx context.Context) (figures []Figure, err error) {
	for _, network := range []string{"bridge", "airtight"} {
		s, err := b.newSubject(ctx, network)
		if err != nil {
			return nil, err
		}
		f, err := b.throughput(ctx, s)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f.atLeast(0.9))
	}
	return figures, nil
}

func (b *bench) throughput(ctx context.Context, s subject) (Figure, error) {
	f := Figure{
		Name: "throughput_vs_floor." + s.network, Samples: map[string][]float64{},
		What: fmt.Sprintf("%d trials on %s: the most a minute at any number of workers, against the floor's most", b.sizes.Throughput, s.network),
	}
	var best, bestFloor float64
	for _, workers := range b.sizes.Workers {
		out, err := b.runTrials(ctx, s.trial, b.sizes.Throughput, runner.Options{Workers: workers, Prewarm: min(workers, 4), Progress: func(runner.Update) {}})
		if err != nil {
			return f, fmt.Errorf("%d workers: %w", workers, err)
		}
		rate := float64(b.sizes.Throughput) / out.took.Minutes()
		floorRate, err := b.floors(ctx, s.floor, b.sizes.FloorTrials, workers)
		if err != nil {
			return f, fmt.Errorf("floor, %d at once: %w", workers, err)
		}
		best, bestFloor = max(best, rate), max(bestFloor, floorRate)
		f.Samples[fmt.Sprintf("trials_a_minute.%d", workers)] = []float64{rate}
		f.Samples[fmt.Sprintf("floors_a_minute.%d", workers)] = []float64{floorRate}
		f.Notes = append(f.Notes, fmt.Sprintf("at %2d: %.1f trials a minute, floor %.1f", workers, rate, floorRate))
	}
	f.Value = best / bestFloor
	return f, nil
}

// seconds returns d in seconds, rounded down to milliseconds.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
