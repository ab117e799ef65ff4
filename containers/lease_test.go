package containers

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

func TestLeaseLives(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	with := func(changes map[string]string) map[string]string {
		l := processLabels()
		maps.Copy(l, changes)
		return l
	}
	now := time.Now()
	tests := []struct {
		name   string
		state  container.ContainerState
		age    time.Duration
		labels map[string]string
		want   bool
	}{
		{"running", "running", 0, processLabels(), true},
		{"running for a week, elsewhere", "running", 7 * 24 * time.Hour, with(map[string]string{labelHost: "elsewhere"}), true},
		{"paused", "paused", time.Hour, processLabels(), true},
		{"running, without labels", "running", 0, nil, true},
		{"created by this process", "created", 0, processLabels(), true},
		{"created by this process long ago", "created", time.Hour, processLabels(), true},
		{"created by a process that has ended", "created", 0, with(map[string]string{labelPID: strconv.Itoa(ended.Process.Pid)}), false},
		{"created by a process whose number came again", "created", 0, with(map[string]string{labelStart: "1"}), false},
		{"created by nobody knows whom", "created", 0, with(map[string]string{labelPID: "", labelStart: ""}), true},
		{"created by nobody knows whom, long ago", "created", 2 * takingLease, with(map[string]string{labelPID: "", labelStart: ""}), false},
		{"created in another container of this host, just now", "created", time.Second, with(map[string]string{labelPIDs: "pid:[1]"}), true},
		{"created in another container of this host, long ago", "created", 2 * takingLease, with(map[string]string{labelPIDs: "pid:[1]"}), false},
		{"created where namespaces are not known", "created", time.Second, with(map[string]string{labelPIDs: ""}), true},
		{"created elsewhere just now", "created", time.Second, with(map[string]string{labelHost: "elsewhere", labelPID: "1"}), true},
		{"created elsewhere long ago", "created", 2 * takingLease, with(map[string]string{labelHost: "elsewhere", labelPID: "1"}), false},
		{"created here before a reboot, just now", "created", time.Second, with(map[string]string{labelBoot: "another"}), true},
		{"created here before a reboot, long ago", "created", 2 * takingLease, with(map[string]string{labelBoot: "another"}), false},
		{"created elsewhere by a clock ahead", "created", -time.Minute, with(map[string]string{labelHost: "elsewhere"}), true},
		{"exited", "exited", 0, processLabels(), false},
		{"dead", "dead", 0, processLabels(), false},
		{"removing", "removing", 0, processLabels(), false},
	}
	for _, test := range tests {
		if got := leaseLives(test.state, now.Add(-test.age), test.labels, now); got != test.want {
			t.Errorf("%s: lives %t, want %t", test.name, got, test.want)
		}
	}
}

func TestProcessStart(t *testing.T) {
	if start := processStart(os.Getpid()); start == "" || start != processStart(os.Getpid()) {
		t.Errorf("start of this process %q, then %q", start, processStart(os.Getpid()))
	}
	if start := processStart(1 << 30); start != "" {
		t.Errorf("start of no process: %q", start)
	}
}

// An expired lease, and everything else that the run shares, is created again by the next
// trial that starts or by a wait for the engine.
func TestFaults_LeaseIsTakenAnew(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, b *Backend){
		"by a trial": func(t *testing.T, b *Backend) {
			s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
			if got := mustSh(t, s, sandbox.Agent, "cat "+sandbox.MCPConfigPath); got == "" {
				t.Error("the trial has no mcp.json")
			}
		},
		"by several trials": func(t *testing.T, b *Backend) {
			var opened sync.WaitGroup
			for number := range 3 {
				trial := trialOf(b, sandbox.NetworkAirtight)
				trial.Number = number + 1
				opened.Go(func() { _, _ = stand(t, b, trial) })
			}
			opened.Wait()
		},
		"by waiting": func(t *testing.T, b *Backend) {
			if err := b.Reconnect(within(t)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openRun(t)
			old := b.lease.current()
			dockertest.Kill(t, dockertest.Engine(t), b.run, roleLease)
			<-old.Guest.Done()
			if _, err := GC(within(t)); err != nil { // to others the run is dead
				t.Fatal(err)
			}
			next(t, b)
			leases := inspectAll(t, b.run)[roleLease]
			if len(leases) != 1 || leases[0].ID == old.id || !leases[0].State.Running {
				t.Errorf("leases %+v", leases)
			}
		})
	}
}

// What could not be taken down is, once that can be done.
func TestDebtsArePaid(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkBridge)
	if _, _, err := b.networks.create(within(t), "waza-"+b.run+"-left", trial.Label(), ""); err != nil {
		t.Fatal(err)
	}
	b.leftovers.add(trial.Label(), nil)
	if err := b.Reconnect(within(t)); err != nil {
		t.Fatal(err)
	}
	noTrialObjects(t, b, trial)
	if b.leftovers.any() {
		t.Errorf("still pending: %v", b.leftovers.trials)
	}
}

// Whoever would resume a live run is refused, and takes nothing from it.
func TestFaults_LiveRunKeepsItsVolumes(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	volumes := func() (names []string) {
		found, err := b.engine.VolumeList(within(t), client.VolumeListOptions{Filters: filter(ofTrial(b.run, wholeRun)).args()})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range found.Items {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		return names
	}
	before := volumes()
	if len(before) != 2 {
		t.Fatalf("volumes %q", before)
	}
	if _, err := Open(within(t), Options{Run: b.run, Resume: true, Guest: dockertest.Waza(t)}); !errors.Is(err, sandbox.ErrAlive) {
		t.Fatalf("got %v", err)
	}
	if after := volumes(); !slices.Equal(before, after) {
		t.Errorf("volumes were %q and are %q", before, after)
	}
}
