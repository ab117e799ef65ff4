package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/test/bench/mcppeer"
)

// measureCrowd runs many trials at once with the executable, whose agents wait for each
// other and then call at the same time. It measures the call rate and the memory of the
// runner.
func (b *bench) measureCrowd(ctx context.Context) ([]Figure, error) {
	place, err := serveMeeting()
	if err != nil {
		return nil, err
	}
	defer func() { _ = place.Close() }()
	load := append(b.loadArgs(b.sizes.CrowdCalls), "-url", "http://web/mcp", "-meet", "http://place/mcp", "-count", fmt.Sprint(b.sizes.Crowd))
	eval, err := b.writeEval(settings{
		network: "bridge", agent: commandAgent(load),
		servers: fmt.Sprintf("    place: {url: \"http://%s/mcp\"}", place.Addr()),
	})
	if err != nil {
		return nil, err
	}
	n := strconv.Itoa(b.sizes.Crowd)
	out, err := b.runExecutable(ctx, "--isolate", "--trials", n, "--workers", n, eval)
	if err != nil {
		return nil, err
	}
	peak := out.peaks
	reports, err := crowdReports(out.dir)
	if err != nil {
		return nil, err
	}
	if len(reports) != b.sizes.Crowd {
		return nil, fmt.Errorf("%d of %d agents reported", len(reports), b.sizes.Crowd)
	}
	began, ended, calls := reports[0].Began, reports[0].Ended, 0
	for _, r := range reports {
		began, ended, calls = min(began, r.Began), max(ended, r.Ended), calls+len(r.Micros)
	}
	rss := Figure{
		Name: "runner_rss_mib", What: fmt.Sprintf("peak resident memory of the runner until the last of %d trials at once is graded", b.sizes.Crowd),
		Value: mib(peak.trials), Samples: map[string][]float64{"to_the_end_mib": {mib(peak.end)}},
		Notes: []string{fmt.Sprintf("%.0f MiB to its end, when it puts the results of %d calls together", mib(peak.end), calls)},
	}
	rate := Figure{
		Name: fmt.Sprintf("calls_per_second.http.%d", b.sizes.Crowd), What: fmt.Sprintf("captured calls a second of %d agents together over http", b.sizes.Crowd),
		Value: float64(calls) / (time.Duration(ended-began) * time.Microsecond).Seconds(),
	}
	return []Figure{rate.atLeast(2500), rss.atMost(64)}, nil
}

// meeting is an MCP server that agents use to wait for each other. It listens on the
// loopback of this machine, and trials reach it as a remote server.
type meeting struct {
	net.Listener
	served *http.Server
}

func serveMeeting() (*meeting, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &meeting{l, &http.Server{Handler: mcppeer.NewHandler(), ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = m.served.Serve(l) }()
	return m, nil
}

func (m *meeting) Close() error { return m.served.Close() }

// peaks is the peak resident memory of a runner, in KiB, until its last trial was graded
// and until it exited.
type peaks struct{ trials, end int }

func mib(kib int) float64 { return float64(kib) / 1024 }

// command returns a command that runs the executable, and its output. The end of ctx
// interrupts it.
func (b *bench) command(ctx context.Context, args ...string) (*exec.Cmd, *strings.Builder) {
	cmd := exec.CommandContext(ctx, b.waza, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = cleanupTimeout
	cmd.Env = append(os.Environ(), b.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C must not reach it directly
	said := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// ran is a completed run of the executable.
type ran struct {
	dir          string      // the run directory
	graded       []time.Time // time of each trial's verdicts, in order
	began, ended time.Time
	peaks        peaks
	processor    time.Duration // of the process and its waited-for children
}

// runExecutable runs "waza run" with additional arguments.
func (b *bench) runExecutable(ctx context.Context, args ...string) (out ran, err error) {
	if out.dir, err = os.MkdirTemp(b.dir, "run-"); err != nil {
		return out, err
	}
	cmd, said := b.command(ctx, append([]string{"run", "--run-dir", out.dir}, args...)...)
	out.began = time.Now()
	if err := cmd.Start(); err != nil {
		return out, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	type seen struct {
		at   time.Time
		peak int
	}
	var all []seen
	for {
		select {
		case err := <-ended:
			out.ended, out.processor = time.Now(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
			record, recordErr := runner.ReadRecord(out.dir)
			if recordErr == nil {
				b.other = append(b.other, record.ID)
			}
			if err != nil {
				return out, fmt.Errorf("waza run: %w\n%s", err, said)
			}
			if recordErr != nil || len(all) == 0 {
				return out, errors.Join(recordErr, errors.New("the runner's memory could not be seen in /proc"))
			}
			out.graded = graded(out.dir)
			for _, s := range all {
				if out.peaks.end = s.peak; len(out.graded) > 0 && s.at.Before(out.graded[len(out.graded)-1]) {
					out.peaks.trials = s.peak
				}
			}
			return out, nil
		case <-time.After(20 * time.Millisecond):
			// The kernel keeps the peak, so the last value before an end is right.
			if peak := peakOf(cmd.Process.Pid); peak > 0 {
				all = append(all, seen{time.Now(), peak})
			}
		}
	}
}

// graded returns the times at which the trials of a run got their verdicts, in order.
func graded(dir string) (all []time.Time) {
	found, _ := filepath.Glob(filepath.Join(dir, "trials", "*", "*", evidence.VerdictsFile))
	for _, path := range found {
		if info, err := os.Stat(path); err == nil {
			all = append(all, info.ModTime())
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// peakOf returns the peak resident memory of a process in KiB, or 0 if it cannot be read.
func peakOf(pid int) int {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	return readPeak(file)
}

func readPeak(status io.Reader) int {
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kib
		}
	}
	return 0
}

func crowdReports(dir string) ([]mcppeer.Report, error) {
	trials, err := runner.Trials(dir)
	if err != nil {
		return nil, err
	}
	var reports []mcppeer.Report
	for _, trial := range trials {
		r, err := readReport(trial)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}
