package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// measureBetween measures, with and without prewarming, how long one worker waits between
// the agents of two trials, and the processor time per trial.
func (b *bench) measureBetween(ctx context.Context) ([]Figure, error) {
	s, err := b.newSubject(ctx, "bridge")
	if err != nil {
		return nil, err
	}
	working := oneCall("bridge")
	working.script += "  - sleep: 2s\n"
	trial, err := b.plan(ctx, working)
	if err != nil {
		return nil, err
	}
	waits, busy, floors := map[int][]float64{}, map[int][]float64{}, []float64{}
	for range b.sizes.Composes {
		for _, ahead := range []int{0, 1} {
			before := processorTime()
			found, err := b.waitsBetween(ctx, trial, b.sizes.Between, ahead)
			if err != nil {
				return nil, err
			}
			waits[ahead] = append(waits[ahead], found...)
			busy[ahead] = append(busy[ahead], (processorTime()-before)/float64(b.sizes.Between))
		}
		took, err := b.floor(ctx, s.floor)
		if err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		floors = append(floors, took.Seconds())
	}
	wait := Figure{
		Name: "between_vs_floor", What: fmt.Sprintf("from one agent's end to the next one's start, with the next sandbox open, against %s by bare engine calls", s.floor),
		Value:   median(waits[1]) / median(floors),
		Samples: map[string][]float64{"wait_s": waits[1], "wait_without_s": waits[0], "floor_s": floors},
		Notes:   []string{fmt.Sprintf("without: %.2f", median(waits[0])/median(floors))},
	}
	processors := Figure{
		Name: "prepared_processor_time", What: "what all processors do for a trial whose sandbox was opened ahead, against one whose was not",
		Value:   median(busy[1]) / median(busy[0]),
		Samples: map[string][]float64{"prepared_s": busy[1], "unprepared_s": busy[0]},
	}
	return []Figure{wait.atMost(0.5), processors.atMost(1.05)}, nil
}

// waitsBetween runs trials one after another and returns the seconds between the end of
// each agent and the start of the next.
func (b *bench) waitsBetween(ctx context.Context, trial *plan.Trial, count, ahead int) (waits []float64, err error) {
	var mu sync.Mutex
	var ended time.Time
	o := runner.Options{Workers: 1, Prewarm: ahead, Progress: func(u runner.Update) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case u.Call != nil:
		case u.Phase == evidence.PhaseAgent && !ended.IsZero():
			waits = append(waits, time.Since(ended).Seconds())
		case u.Phase == evidence.PhaseCollect:
			ended = time.Now()
		}
	}}
	_, err = b.runTrials(ctx, trial, count, o)
	return waits, err
}

// processorTime returns the processor time that this machine has used since boot, in
// seconds.
func processorTime() (seconds float64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, waiting, irq, softirq float64
	first, _, _ := strings.Cut(string(stat), "\n")
	_, _ = fmt.Sscanf(first, "cpu %f %f %f %f %f %f %f", &user, &nice, &system, &idle, &waiting, &irq, &softirq)
	return (user + nice + system + irq + softirq) / 100
}
