package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/memtest"
)

const (
	// soakEnv is how many trials in a row a soak has. Without it there are a few at once.
	soakEnv = "WAZA_SOAK"

	soakRole  = "soak"
	soakDir   = "WAZA_SOAK_DIR"   // the project, in the environment of the process that runs it
	soakGuest = "WAZA_SOAK_GUEST" // the executable that becomes process 1
	soakCode  = "code"            // the file that holds the run's exit code
)

// soak runs an eval in this process: once with one trial, which warms it up, and then
// as it is. It tells what it held in between.
func soak(ready func(string), _ <-chan struct{}) {
	dir := os.Getenv(soakDir)
	waza := func(run string, options ...string) int {
		out, err := os.Create(filepath.Join(dir, run+".out"))
		if err != nil {
			panic(err)
		}
		defer func() { _ = out.Close() }()
		s := &state{
			args:   append([]string{"waza", "run", "--isolate", "--run-dir", filepath.Join(dir, run), filepath.Join(dir, "eval.yaml")}, options...),
			stdout: out, stderr: &screen{out: out}, lookup: os.LookupEnv, version: "soak", guest: os.Getenv(soakGuest), digest: files.DigestOnce(),
		}
		return s.main(context.Background())
	}
	waza("warm", "--trials", "1")
	ready(fmt.Sprintf("%d %d", settledGoroutines(), descriptors(os.Getpid())))
	code := waza("run")
	settledGoroutines()
	if err := os.WriteFile(filepath.Join(dir, soakCode), []byte(strconv.Itoa(code)), 0o600); err != nil {
		panic(err)
	}
}

// settledGoroutines is how many goroutines there are when no more end.
func settledGoroutines() int {
	least := runtime.NumGoroutine()
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

func descriptors(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries)
}

// sample is what a run held at one time.
type sample struct {
	done, goroutines, files, objects int
	heap, rss                        int64
}

func (s sample) String() string {
	return fmt.Sprintf("%5d trials done  %5d goroutines  %4d files  %6d KiB heap  %4d MiB RSS at the most  %3d objects",
		s.done, s.goroutines, s.files, s.heap>>10, s.rss>>20, s.objects)
}

// growth is how much more the last third of a run held than the first, each when it
// held least: what comes and goes with trials is more or less as they meet, and what
// leaks is there at the least, too.
func growth(all []sample, of func(sample) int64) int64 {
	third := len(all) / 3
	return least(all[len(all)-third:], of) - least(all[:third], of)
}

func least(all []sample, of func(sample) int64) int64 {
	values := make([]int64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	return slices.Min(values)
}

const soakEval = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: TRIALS
  parallel: true
  workers: WORKERS
  executor: script
  isolation: {network: NETWORK}
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/hostile, args: [behave], files: {/srv/hostile: hostile}, startup_timeout: 300}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: it, tool: poke}
  - say: over
`

// TestFaults_Soak runs many trials in one process, in a row and at once, and holds that it
// grows in nothing and leaves nothing. `make soak` runs 500 in a row.
func TestFaults_Soak(t *testing.T) {
	t.Parallel()
	long, _ := strconv.Atoi(os.Getenv(soakEnv))
	crowd := 16
	if long > 0 {
		crowd = 40
	}
	tests := []struct {
		name, network   string
		trials, workers int
	}{
		{"in a row", "airtight", long, 2},
		{"at once", "airtight", crowd, crowd},
		{"on bridges at once", "bridge", crowd * min(1, long), crowd},
	}
	for _, test := range tests {
		if test.trials == 0 {
			continue // only in a long soak
		}
		t.Run(test.name, func(t *testing.T) {
			p := newProject(t, strings.NewReplacer("TRIALS", strconv.Itoa(test.trials), "WORKERS", strconv.Itoa(test.workers), "NETWORK", test.network).Replace(soakEval))
			p.compile("hostile", "./testdata/hostile")
			watchSoak(t, p, test.trials)
		})
	}
}

func watchSoak(t *testing.T, p *project, trials int) {
	engine := dockertest.Engine(t)
	v := memtest.Start(t, soakRole, soakDir+"="+p.dir, soakGuest+"="+dockertest.Waza(t))
	var goroutines, files int
	if _, err := fmt.Sscan(v.Address, &goroutines, &files); err != nil {
		t.Fatal(err)
	}
	look := func() sample {
		use := v.Use()
		done, _ := filepath.Glob(p.path("run", "trials", "*", "*", "verdicts.json"))
		return sample{len(done), use.Goroutines, descriptors(v.PID()), soakObjects(t, engine, p.name), use.Heap, use.RSS}
	}
	var steady []sample
	begun := time.Now()
	for reported := 0; !p.exists(soakCode); time.Sleep(300 * time.Millisecond) {
		s := look()
		if s.done >= reported {
			t.Logf("%4.0f s %s", time.Since(begun).Seconds(), s)
			reported = s.done + max(trials/20, 1)
		}
		if s.done >= trials/10 && s.done <= trials-trials/10 {
			steady = append(steady, s)
		}
	}
	last := look()
	t.Logf("at the end %s; before it %d goroutines, %d files", last, goroutines, files)
	if code := p.read(soakCode); code != "0" {
		t.Fatalf("exit code %s\n%s", code, p.read("run.out"))
	}
	if last.done != trials {
		t.Errorf("%d trials are done, want %d", last.done, trials)
	}
	if last.goroutines > goroutines+2 || last.files > files+2 || last.objects > 0 {
		t.Errorf("left behind: %s", last)
	}
	if len(steady) < 9 || trials < 100 {
		return // few trials, or all at once: their thirds tell which trials were at work then
	}
	for _, bound := range []struct {
		what string
		most int64
		of   func(sample) int64
	}{
		{"goroutines", 8, func(s sample) int64 { return int64(s.goroutines) }},
		{"files", 4, func(s sample) int64 { return int64(s.files) }},
		{"objects", 2, func(s sample) int64 { return int64(s.objects) }},
		// A run knows how each trial went, and so grows by some KiB with each.
		{"bytes of heap", 2<<20 + int64(trials)<<14, func(s sample) int64 { return s.heap }},
	} {
		grown := growth(steady, bound.of)
		t.Logf("growth from the first third to the last: %d %s", grown, bound.what)
		if grown > bound.most {
			t.Errorf("it grew by %d %s, more than %d", grown, bound.what, bound.most)
		}
	}
}

// soakObjects is how many containers, networks and volumes runs of an eval have.
func soakObjects(t *testing.T, engine *client.Client, name string) int {
	t.Helper()
	n := 0
	for _, run := range dockertest.Runs(t, engine, name) {
		n += len(dockertest.Objects(t, engine, run))
	}
	return n
}
