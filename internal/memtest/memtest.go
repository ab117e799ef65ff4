// Package memtest runs the target of an attack in a separate process, so that its memory
// can be measured separately from the attacker's.
package memtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// env is the environment variable with the role of a victim.
const env = "WAZA_MEMTEST_ROLE"

// Role is the code of a victim. It calls ready with what its attacker needs to know, and
// returns soon after stop is closed.
type Role func(ready func(string), stop <-chan struct{})

// Main runs the role of the process if it was started as a victim, and otherwise returns.
// TestMain must call it first.
func Main(roles map[string]Role) {
	role, ok := roles[os.Getenv(env)]
	if !ok {
		return
	}
	debug.SetGCPercent(50) // like the runner
	peak, stop := watch(), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		role(func(address string) { fmt.Println("ready", address) }, stop)
	}()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		_ = json.NewEncoder(os.Stdout).Encode(peak())
	}
	close(stop)
	<-done
	os.Exit(0)
}

// Use is the resource usage of a process.
type Use struct {
	Peak       int64 `json:"peak"`       // maximum bytes that Go obtained from the system
	Heap       int64 `json:"heap"`       // current bytes of the heap, after a garbage collection
	Goroutines int   `json:"goroutines"` // current number
	Most       int   `json:"most"`       // maximum number of goroutines
	RSS        int64 `json:"rss"`        // maximum resident bytes; measured from outside
}

// watch samples the usage of this process a thousand times per second.
func watch() func() Use {
	ask := make(chan chan Use)
	go func() {
		samples := []metrics.Sample{
			{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		}
		var use Use
		tick := time.NewTicker(time.Millisecond)
		for {
			metrics.Read(samples)
			use.Peak = max(use.Peak, int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()))
			use.Goroutines = runtime.NumGoroutine()
			use.Most = max(use.Most, use.Goroutines)
			select {
			case answer := <-ask:
				answer <- use
			case <-tick.C:
			}
		}
	}()
	return func() Use {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		answer := make(chan Use)
		ask <- answer
		use := <-answer
		use.Heap = int64(stats.HeapAlloc)
		return use
	}
}

// Victim is a process under attack.
type Victim struct {
	Address string // passed to ready

	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts a victim and waits until it is ready. It ends with the test. settings are
// added to its environment.
func Start(t testing.TB, role string, settings ...string) *Victim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v := &Victim{t: t, cmd: exec.Command(self)}
	v.cmd.Env = append(append(os.Environ(), settings...), env+"="+role, "GORACE=atexit_sleep_ms=0")
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = v.in.Close()
		if err := v.cmd.Wait(); err != nil {
			t.Errorf("the victim: %v", err)
		}
	})
	v.out = bufio.NewReader(out)
	line := v.line()
	if v.Address = strings.TrimPrefix(line, "ready "); v.Address == line {
		t.Fatalf("the victim says %q", line)
	}
	return v
}

func (v *Victim) line() string {
	v.t.Helper()
	line, err := v.out.ReadString('\n')
	if err != nil {
		v.t.Fatalf("the victim is gone: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Use returns the victim's resource usage.
func (v *Victim) Use() Use {
	v.t.Helper()
	if _, err := io.WriteString(v.in, "\n"); err != nil {
		v.t.Fatalf("the victim is gone: %v", err)
	}
	var use Use
	if line := v.line(); json.Unmarshal([]byte(line), &use) != nil {
		v.t.Fatalf("the victim says %q", line)
	}
	use.RSS = PeakRSS(v.cmd.Process.Pid)
	return use
}

// PeakRSS returns the maximum resident memory of a process in bytes, or 0 if unknown.
func PeakRSS(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}

// peakEvery is the interval of WatchPeak.
const peakEvery = 20 * time.Millisecond

// WatchPeak samples the maximum resident memory of a process until the returned function is
// called, which returns it. It may miss the last moments. It is needed because the kernel's
// figure for an ended process starts with its parent's.
func WatchPeak(pid int) func() int64 {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for tick := time.NewTicker(peakEvery); ; {
			select {
			case <-stop:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
				most = max(most, PeakRSS(pid))
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

// PID returns the victim's process ID.
func (v *Victim) PID() int { return v.cmd.Process.Pid }
