// Command bench measures the cost of isolation relative to plain engine calls. Both are
// measured alternately in one run.
//
// It removes everything that it creates, also when interrupted, and does not touch other
// objects.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options holds the command line options.
type options struct {
	waza, peer, attacker string // executables
	tools                string // directory to install other tools in; none are measured if empty
	out                  string // report file; none if empty
	runtime              string // runtime of the trials' containers; the engine's default if empty
	only                 []string
	sizes                sizes
}

// sizes says how often each measurement is repeated.
type sizes struct {
	Trials      int   `json:"trials"`       // per kind of network, and as many floors
	Composes    int   `json:"composes"`     // at most Trials
	Between     int   `json:"between"`      // consecutive trials per block
	Throughput  int   `json:"throughput"`   // trials per number of workers
	FloorTrials int   `json:"floor_trials"` // floors per parallelism
	Workers     []int `json:"workers"`
	Blocks      int   `json:"blocks"`      // blocks of calls
	Calls       int   `json:"calls"`       // measured calls per block
	Warm        int   `json:"warm"`        // warm-up calls per block
	Crowd       int   `json:"crowd"`       // concurrent trials
	CrowdCalls  int   `json:"crowd_calls"` // calls per concurrent trial
	Neighbours  int   `json:"neighbours"`  // trials of each kind per attacker

	FewTasks      int `json:"few_tasks"`
	ManyTasks     int `json:"many_tasks"`
	IsolatedTasks int `json:"isolated_tasks"`
	Starts        int `json:"starts"` // of waza run --isolate
}

func fullSizes() sizes {
	return sizes{
		Trials: 8, Composes: 4, Between: 6, Throughput: 32, FloorTrials: 16, Workers: []int{1, 2, 4, 8, 16},
		Blocks: 5, Calls: 1000, Warm: 200, Crowd: 16, CrowdCalls: 250, Neighbours: 5,
		FewTasks: 100, ManyTasks: 1000, IsolatedTasks: 40, Starts: 9,
	}
}

func quickSizes() sizes {
	return sizes{
		Trials: 1, Composes: 1, Between: 2, Throughput: 2, FloorTrials: 2, Workers: []int{2}, Blocks: 1, Calls: 20, Warm: 2, Crowd: 2, CrowdCalls: 20, Neighbours: 1,
		FewTasks: 4, ManyTasks: 8, IsolatedTasks: 4, Starts: 1,
	}
}

func readOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	var quick bool
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.waza, "waza", "bin/waza", "the static waza `EXECUTABLE` to measure")
	flags.StringVar(&o.peer, "peer", "bin/bench-peer", "the static `EXECUTABLE` of test/bench/peer")
	flags.StringVar(&o.attacker, "attacker", "bin/bench-attacker", "the static `EXECUTABLE` of test/attacks/hostile")
	flags.StringVar(&o.tools, "tools", "bin/tools", "install other tools that calls are measured through in this `DIRECTORY`; empty for none of them")
	flags.StringVar(&o.out, "o", "bench.json", "write the report to this `FILE` too; empty for nowhere")
	flags.StringVar(&o.runtime, "runtime", "", "run trials, and their floors, with this `RUNTIME` that the engine knows, such as crun")
	flags.StringVar(&only, "only", "", "measure only these `PARTS`: "+strings.Join(partNames(), ","))
	flags.BoolVar(&quick, "quick", false, "do everything once or twice: to see that it works, not to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q? see bench -h", flags.Arg(0))
	}
	o.only = partNames()
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(partNames(), name) {
			return o, fmt.Errorf("there is no part %q; they are %s", name, strings.Join(partNames(), ", "))
		}
	}
	o.sizes = fullSizes()
	if quick {
		o.sizes = quickSizes()
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := readOptions(args, stderr)
	if err != nil {
		return err
	}
	b, err := open(ctx, o, stderr)
	if err != nil {
		return err
	}
	report, failed := b.measure(ctx)
	left, err := b.close(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case ctx.Err() != nil:
		return errors.New("interrupted; everything was removed")
	}
	report.add(left)
	_, err = io.WriteString(stdout, report.String())
	return errors.Join(err, report.write(o.out), report.complaint(), failed)
}
