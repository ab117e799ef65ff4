package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// quick returns the command line of a benchmark that does everything once or twice.
func quick(t *testing.T, more ...string) []string {
	t.Helper()
	dockertest.Require(t)
	dockertest.Tool(t, "docker-compose")
	return append([]string{"-quick", "-tools", "", "-waza", dockertest.Waza(t), "-peer", dockertest.Program(t, "test/bench/peer", "peer"), "-attacker", dockertest.Program(t, "test/attacks/hostile", "hostile")}, more...)
}

// TestEveryFigure runs the benchmark and checks that it reports every figure and leaves no
// objects. It does not check the values, which depend on the machine and its load.
func TestEveryFigure(t *testing.T) {
	out := filepath.Join(t.TempDir(), "bench.json")
	var stdout, stderr strings.Builder
	if err := run(t.Context(), quick(t, "-o", out), &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range report.Figures {
		names = append(names, f.Name)
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
		if !strings.Contains(stdout.String(), "`"+f.Name+"`") {
			t.Errorf("%s is not in the table:\n%s", f.Name, &stdout)
		}
		if f.Name == "left_behind" && f.Value != 0 {
			t.Errorf("left behind: %q", f.Notes)
		}
	}
	want := []string{
		"trial_vs_floor.bridge", "trial_vs_floor.airtight", "trial_vs_compose", "throughput_vs_floor.bridge", "throughput_vs_floor.airtight",
		"between_vs_floor", "prepared_processor_time",
		"call_added_ms.http.p50", "call_added_ms.http.p99", "call_added_vs_echoes.http", "calls_per_second.http.1",
		"call_added_ms.stdio.p50", "call_added_ms.stdio.p99", "call_added_vs_echoes.stdio", "calls_per_second.stdio.1",
		"calls_per_second.http.2", "runner_rss_mib",
		"calls_beside.users", "start_beside.users", "calls_beside.connections", "start_beside.connections", "api_calls.bridge", "api_calls.airtight",
		"start_s", "scale_time.local", "scale_time.airtight", "scale_rss", "scale_after_s", "scale_report_mib", "scale_resume_s", "left_behind",
	}
	if !slices.Equal(names, want) {
		t.Errorf("figures %q, want %q", names, want)
	}
	for _, key := range []string{"cpus", "cpu", "memory", "load_before"} {
		if report.Machine[key] == "" {
			t.Errorf("the report does not say the machine's %s", key)
		}
	}
}

// An interrupted benchmark removes all its objects.
func TestInterrupted(t *testing.T) {
	o, err := readOptions(quick(t, "-only", "trial"), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(t.Context(), o, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := b.measure(ctx)
		ended <- err
	}()
	dockertest.Await(t, 2*time.Minute, "a floor stands", func() bool {
		found, err := b.engine.objects(t.Context(), labelBench+"="+b.run)
		return err == nil && slices.ContainsFunc(found, func(o string) bool { return strings.HasPrefix(o, "network ") && strings.Contains(o, "floor") })
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("it came to an end all the same")
	}
	left, err := b.close(t.Context())
	if err != nil || left.Value != 0 {
		t.Errorf("left behind: %q, %v", left.Notes, err)
	}
}

// A tool is measured, here the server itself, and a tool that cannot be installed is left
// out.
func TestOtherTools(t *testing.T) {
	b := &bench{options: options{peer: dockertest.Program(t, "test/bench/peer", "peer"), tools: t.TempDir(), sizes: quickSizes()}, dir: t.TempDir(), stderr: t.Output()}
	ways, leftOut, stop := b.startTools(t.Context(), []tool{
		{"itself", "1", "http", []string{"touch", "installed"}, []string{"PEER", "http", "127.0.0.1:PORT"}},
		{"none", "2", "stdio", []string{"sh", "-c", "echo no such package; exit 3"}, nil},
	})
	defer stop()
	if len(leftOut) != 1 || !strings.HasPrefix(leftOut[0], "none 2 is left out: ") || !strings.HasSuffix(leftOut[0], "no such package") {
		t.Errorf("left out: %q", leftOut)
	}
	if len(ways) != 1 {
		t.Fatalf("%d tools run, want 1", len(ways))
	}
	if err := ways[0].block(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := len(pooled(ways[0].captured)), b.sizes.Calls; got != want {
		t.Errorf("%d calls through it, want %d", got, want)
	}
	if _, err := os.Stat(filepath.Join(b.tools, "itself-1", "installed")); err != nil {
		t.Error(err)
	}
}

// The benchmark reports missing requirements before it starts.
func TestWhatIsMissing(t *testing.T) {
	for want, args := range map[string][]string{
		"run make bench":         {"-waza", "/nowhere/waza"},
		`there is no part "tea"`: {"-only", "tea"},
		`what is "now"`:          {"now"},
	} {
		err := run(t.Context(), args, os.Stdout, os.Stderr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %q: error %v, want %q", args, err, want)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := run(t.Context(), []string{"-waza", self, "-peer", self, "-attacker", self}, os.Stdout, os.Stderr); err == nil || !strings.Contains(err.Error(), "scripts/setup compose") {
		t.Errorf("without docker-compose: %v", err)
	}
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
	if err := run(t.Context(), []string{"-waza", self, "-peer", self, "-attacker", self, "-only", "calls"}, os.Stdout, os.Stderr); err == nil || !strings.Contains(err.Error(), "no Docker engine answers") {
		t.Errorf("without an engine: %v", err)
	}
}

func TestStatistics(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	if got := median(values); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
	if got := median(values[:4]); got != 3 {
		t.Errorf("median of four %v, want 3", got)
	}
	for p, want := range map[int]float64{0: 1, 20: 1, 50: 3, 99: 5, 100: 5} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile %d is %v, want %v", p, got, want)
		}
	}
	if got := readPeak(strings.NewReader("Name:\tx\nVmHWM:\t   1234 kB\n")); got != 1234 {
		t.Errorf("peak %d, want 1234", got)
	}
}
