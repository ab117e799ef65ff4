package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/net/html"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
)

// measureScale runs evals of many tasks, with one trial each, and compares the last trials
// with the first.
func (b *bench) measureScale(ctx context.Context) ([]Figure, error) {
	few, err := b.runTasks(ctx, b.sizes.FewTasks, "local")
	if err != nil {
		return nil, err
	}
	many, err := b.runTasks(ctx, b.sizes.ManyTasks, "local")
	if err != nil {
		return nil, err
	}
	isolated, err := b.runTasks(ctx, b.sizes.IsolatedTasks, "airtight")
	if err != nil {
		return nil, err
	}
	resumed, err := b.resumeHalfway(ctx)
	if err != nil {
		return nil, err
	}
	page, parsed, err := parseReport(filepath.Join(many.dir, runner.ReportFile))
	if err != nil {
		return nil, err
	}
	memory := Figure{
		Name: "scale_rss", What: fmt.Sprintf("peak resident memory of the runner with %d tasks, by that with %d, until the last is graded", many.tasks, few.tasks),
		Value: float64(many.peaks.trials) / float64(few.peaks.trials),
		Samples: map[string][]float64{
			"trials_mib": {mib(few.peaks.trials), mib(many.peaks.trials)}, "to_the_end_mib": {mib(few.peaks.end), mib(many.peaks.end)},
		},
		Notes: []string{fmt.Sprintf("%.0f and %.0f MiB; %.0f and %.0f MiB to the end", mib(few.peaks.trials), mib(many.peaks.trials), mib(few.peaks.end), mib(many.peaks.end))},
	}
	after := Figure{
		Name: "scale_after_s", What: fmt.Sprintf("seconds from the last of %d verdicts to the end: results, reports and digests", many.tasks),
		Value: seconds(many.after),
	}
	size := Figure{
		Name: "scale_report_mib", What: fmt.Sprintf("report.html of %d tasks", many.tasks), Value: float64(page) / (1 << 20),
		Notes: []string{fmt.Sprintf("golang.org/x/net/html reads it in %.2f s", parsed.Seconds())},
	}
	resume := Figure{
		Name: "scale_resume_s", What: fmt.Sprintf("seconds from waza run --resume of %d tasks, half of them done, until its first trial begins", b.sizes.ManyTasks),
		Value: seconds(resumed),
	}
	return []Figure{
		many.flat("scale_time.local").atMost(1.1), isolated.flat("scale_time.airtight").atMost(1.1), memory.atMost(1.1),
		after, size, resume.atMost(1),
	}, nil
}

// scaled is a completed run of many tasks.
type scaled struct {
	ran
	network string
	tasks   int
	paces   []float64     // milliseconds per trial, for each tenth in order of completion
	after   time.Duration // from the last verdict to exit
}

// flat compares the time per trial at the end of a run with that at its beginning, each the
// median of three tenths.
func (s scaled) flat(name string) Figure {
	third := max(1, len(s.paces)*3/10)
	return Figure{
		Name: name, What: fmt.Sprintf("time a trial in the last 3 tenths of %d tasks, by the first 3 tenths", s.tasks),
		Value:   median(s.paces[len(s.paces)-third:]) / median(s.paces[:third]),
		Samples: map[string][]float64{"trial_ms": s.paces},
		Notes: []string{fmt.Sprintf("%.1f ms a trial, two at once; %.1f ms of processor time, its processes counted",
			median(s.paces), s.processor.Seconds()*1000/float64(s.tasks))},
	}
}

// leastPace is the minimum time of a trial in milliseconds. Verdicts written within the
// resolution of file times have the same time.
const leastPace = 0.01

// runTasks runs an eval of many tasks, two at once.
func (b *bench) runTasks(ctx context.Context, tasks int, network string) (scaled, error) {
	s := scaled{network: network, tasks: tasks}
	eval, err := b.writeTasks(tasks, network)
	if err != nil {
		return s, err
	}
	if s.ran, err = b.runExecutable(ctx, taskArgs(network, eval)...); err != nil {
		return s, err
	}
	if len(s.graded) != tasks {
		return s, fmt.Errorf("%d of %d trials have verdicts", len(s.graded), tasks)
	}
	parts := min(10, tasks/2)
	for i := range parts {
		from, to := i*(tasks-1)/parts, (i+1)*(tasks-1)/parts
		s.paces = append(s.paces, max(leastPace, s.graded[to].Sub(s.graded[from]).Seconds()*1000/float64(to-from)))
	}
	s.after = s.ended.Sub(s.graded[tasks-1])
	return s, nil
}

func taskArgs(network, eval string) []string {
	args := []string{"--workers", "2", eval}
	if network != "local" {
		args = append([]string{"--isolate"}, args...)
	}
	return args
}

// writeTasks writes an eval of many tasks whose agents make one call each.
func (b *bench) writeTasks(tasks int, network string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "eval-")
	if err != nil {
		return "", err
	}
	peer, err := filepath.Abs(b.peer)
	if err != nil {
		return "", err
	}
	server, isolation := fmt.Sprintf("{command: %q, args: [stdio]}", peer), ""
	if network != "local" {
		server = fmt.Sprintf("{image: %q, pull: never, command: /peer, args: [stdio]}", b.image)
		isolation = fmt.Sprintf("\n  isolation: {network: %s}", network)
	}
	eval := fmt.Sprintf(`name: scale
config:
  trials_per_task: 1
  timeout_seconds: 120
  executor: script%s
  mcp_servers: {stock: %s}
graders:
  - {name: used, type: mcp_compliance, config: {expect_tools_used: [echo], max_tool_errors: 0}}
tasks: ["task-*.yaml"]
`, isolation, server)
	for i := range tasks {
		task := fmt.Sprintf(`id: t%04d
inputs: {prompt: x}
script:
  - call: {server: stock, tool: echo, arguments: {text: "hello %d"}}
  - say: done
`, i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("task-%04d.yaml", i)), []byte(task), 0o600); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "eval.yaml")
	return path, os.WriteFile(path, []byte(eval), 0o600)
}

// resumeHalfway interrupts a run when half of its trials are done, resumes it, and returns
// the time to its first trial.
func (b *bench) resumeHalfway(ctx context.Context) (time.Duration, error) {
	tasks := b.sizes.ManyTasks
	eval, err := b.writeTasks(tasks, "local")
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(b.dir, "resumed")
	if err := b.runUntil(ctx, func() bool { return done(dir) >= tasks/2 }, append([]string{"run", "--run-dir", dir}, taskArgs("local", eval)...)...); err != nil {
		return 0, err
	}
	begun := time.Now()
	first := func() (time.Time, bool) {
		all := progress(dir)
		i := slices.IndexFunc(all, func(p evidence.Progress) bool { return p.Time.After(begun) })
		if i < 0 {
			return time.Time{}, false
		}
		return all[i].Time, true
	}
	begins := func() bool { _, ok := first(); return ok }
	if err := b.runUntil(ctx, begins, "run", "--resume", dir); err != nil {
		return 0, err
	}
	at, ok := first()
	if !ok {
		return 0, errors.New("the resumed run began no trial")
	}
	return at.Sub(begun), nil
}

// progress reads the progress of the run in dir, or returns nil if there is none.
func progress(dir string) []evidence.Progress {
	lines, err := evidence.ReadFile(dir, evidence.ProgressFile)
	if err != nil {
		return nil
	}
	return evidence.ParseProgress(lines)
}

// done returns the number of completed trials of the run in dir.
func done(dir string) (n int) {
	for _, p := range progress(dir) {
		if p.Phase == evidence.PhaseDone {
			n++
		}
	}
	return n
}

// runUntil runs the executable and interrupts it once so returns true.
func (b *bench) runUntil(ctx context.Context, so func() bool, args ...string) error {
	cmd, said := b.command(ctx, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("waza %s ended: %w\n%s", args[0], err, said)
		case <-time.After(100 * time.Millisecond):
		}
		if so() {
			err := cmd.Cancel()
			<-ended // fails, since it was interrupted
			return err
		}
	}
}

// parseReport parses an HTML page and returns its size and the time taken.
func parseReport(path string) (size int64, took time.Duration, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	began := time.Now()
	if _, err := html.Parse(file); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	size, err = file.Seek(0, io.SeekEnd)
	return size, took, err
}
