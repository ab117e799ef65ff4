// Package memtest runs what a test attacks in a process of its own, so that its memory can
// be measured apart from the attacker's.
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

// env names the role of a victim in its environment.
const env = "WAZA_MEMTEST_ROLE"

// Role is what a victim does. It calls ready with what its attacker has to know, and
// returns soon after stop is closed.
type Role func(ready func(string), stop <-chan struct{})

// Main makes the process a victim where it was started as one, and returns else.
// TestMain calls it first.
func Main(roles map[string]Role) {
	role, ok := roles[os.Getenv(env)]
	if !ok {
		return
	}
	debug.SetGCPercent(50) // as the runner has it
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

// Use is what a process takes.
type Use struct {
	Peak       int64 `json:"peak"`       // bytes that Go had of the system, at the most
	Heap       int64 `json:"heap"`       // bytes of the heap now, after a collection
	Goroutines int   `json:"goroutines"` // now
	Most       int   `json:"most"`       // goroutines, at the most
	RSS        int64 `json:"rss"`        // bytes resident, at the most; not told by the victim
}

// watch samples this process a thousand times a second.
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

// Victim is a process that a test attacks.
type Victim struct {
	Address string // what it told

	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts a victim and waits until it is ready. It ends with the test. Settings
// are of its environment.
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

// Use asks the victim what it takes.
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

// PeakRSS returns how many bytes of memory a process had at the most; 0 where that cannot
// be told.
func PeakRSS(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}

// peakEvery is how often somebody looks at how much memory a process had.
const peakEvery = 20 * time.Millisecond

// WatchPeak looks at how many bytes of memory a process had at the most, to within what it
// takes in its last moments, until the returned function is called, which tells. The
// kernel's own account of a process that has ended begins with what its parent had.
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

// PID returns the victim's.
func (v *Victim) PID() int { return v.cmd.Process.Pid }
