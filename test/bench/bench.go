package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner"
)

// cleanupTimeout limits how long the removal of all objects of the benchmark may take.
const cleanupTimeout = 2 * time.Minute

// bench is a running benchmark.
type bench struct {
	options
	stderr  io.Writer
	engine  *engine
	backend *containers.Backend
	secrets *secret.Set
	run     string   // run id of the objects of backend and of the floors
	other   []string // run ids of the measured runs of the executable
	image   string   // peer image
	dir     string
	compose *compose // nil without a comparison with docker-compose
	env     []string // additional environment of executables
	trials  int      // number of trials run; makes names unique
}

// part is a group of figures that are measured together.
type part struct {
	name    string
	measure func(*bench, context.Context) ([]Figure, error)
}

func parts() []part {
	return []part{
		{"trial", (*bench).measureTrials},
		{"throughput", (*bench).measureThroughput},
		{"between", (*bench).measureBetween},
		{"calls", (*bench).measureCalls},
		{"crowd", (*bench).measureCrowd},
		{"neighbours", (*bench).measureNeighbours},
		{"calls-of-a-trial", (*bench).measureAPICalls},
		{"start", (*bench).measureStart},
		{"scale", (*bench).measureScale},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// open checks the requirements and prepares the benchmark. The error says what is missing.
func open(ctx context.Context, o options, stderr io.Writer) (_ *bench, err error) {
	for _, file := range []string{o.waza, o.peer, o.attacker} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s is missing: run make bench, which builds it", file)
		}
	}
	b := &bench{options: o, stderr: stderr, secrets: &secret.Set{}, run: runner.NewID("bench")}
	defer func() {
		if err != nil {
			_, closeErr := b.close(context.WithoutCancel(ctx))
			err = errors.Join(err, closeErr)
		}
	}()
	if slices.Contains(o.only, "trial") {
		if b.compose, err = findCompose(ctx); err != nil {
			return nil, err
		}
	}
	if b.engine, err = dialEngine(ctx); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "waza-bench-"); err != nil {
		return nil, err
	}
	if b.backend, err = containers.Open(ctx, containers.Options{Run: b.run, Guest: o.waza}); err != nil {
		return nil, err
	}
	b.image, err = b.engine.importPeer(ctx, o.peer, o.attacker, b.run)
	return b, err
}

// measure measures the selected parts. If a part fails, the others are still measured and
// reported.
func (b *bench) measure(ctx context.Context) (*Report, error) {
	report := newReport(b)
	var errs []error
	for _, p := range parts() {
		if !slices.Contains(b.only, p.name) || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		figures, err := p.measure(b, ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		report.add(figures...)
		fmt.Fprintf(b.stderr, "%s: %.0f s\n", p.name, time.Since(began).Seconds())
	}
	return report, errors.Join(errs...)
}

// close removes all objects of the benchmark and counts those left on the engine.
func (b *bench) close(ctx context.Context) (Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	var errs []error
	if b.compose != nil && b.dir != "" {
		errs = append(errs, b.compose.down(ctx))
	}
	if b.engine != nil {
		errs = append(errs, b.engine.sweep(ctx, labelBench+"="+b.run))
	}
	if b.backend != nil {
		errs = append(errs, b.backend.Close(ctx))
	}
	var left []string
	if b.engine != nil {
		errs = append(errs, b.engine.dropImage(ctx, b.image))
		for _, run := range append([]string{b.run}, b.other...) {
			found, err := b.engine.objects(ctx, labelRun+"="+run)
			left, errs = append(left, found...), append(errs, err)
		}
		if b.compose != nil {
			found, err := b.engine.objects(ctx, labelProject+"="+b.compose.project)
			left, errs = append(left, found...), append(errs, err)
		}
		errs = append(errs, b.engine.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return leftBehind(left), errors.Join(errs...)
}

func leftBehind(objects []string) Figure {
	f := Figure{Name: "left_behind", What: "containers, networks and volumes that stand on the engine after all of it", Value: float64(len(objects)), Notes: objects}
	return f.atMost(0)
}
