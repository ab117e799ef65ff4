package containers

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

// A directory that was full while the guest watched has been full, whatever its
// state is in the end.
func TestFullDirectoryIsRemembered(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, seen := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
	sh(t, s, sandbox.Agent, "head -c 8388608 /dev/zero > /tmp/big")
	full := func(e evidence.Event) bool { return e.Kind == "disk" && e.Where == sandbox.Agent }
	dockertest.Await(t, timeout, "the guest to see it", func() bool { return seen.has(full) })
	mustSh(t, s, sandbox.Agent, "rm /tmp/big")
	used, err := s.Usage(within(t), sandbox.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if d := used.Disks["/tmp"]; !d.Full || d.Peak != d.Size || d.Size != 4<<20 {
		t.Errorf("/tmp %+v", d)
	}
	for _, dir := range []string{sandbox.WorkspaceDir, sandbox.HomeDir} {
		if d, ok := used.Disks[dir]; !ok || d.Full {
			t.Errorf("%s %+v", dir, d)
		}
	}
}

// A container that runs out of memory loses a program and not process 1.
func TestFaults_GuestOutlivesWhatEatsMemory(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, seen := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
	for range 5 {
		sh(t, s, sandbox.Agent, "tail /dev/zero & tail /dev/zero & tail /dev/zero; wait")
	}
	used, err := s.Usage(within(t), sandbox.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if used.OOMKills == nil || *used.OOMKills < 5 || used.Memory.Peak < 100<<20 || used.Memory.Peak > 129<<20 {
		t.Errorf("used %+v, %v kills", used.Memory, used.OOMKills)
	}
	if !seen.has(func(e evidence.Event) bool { return e.Kind == "oom" && e.Where == sandbox.Agent }) {
		t.Error("nobody is told")
	}
	if err := s.containers[sandbox.Agent].Guest.Err(); err != nil {
		t.Errorf("process 1: %v", err)
	}
}

// Files in tmpfs are memory that no program holds: what writes them ends, and process 1
// may follow, with no memory left for itself. Either way it is known what they ran into.
func TestFaults_FilesThatFillMemory(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkAirtight)
	trial.Container(sandbox.Agent).Memory, trial.Container(sandbox.Agent).Disk = 64<<20, 256<<20
	s, seen := stand(t, b, trial)
	e := sh(t, s, sandbox.Agent, "head -c 134217728 /dev/zero > /workspace/big")
	if e.err == nil && e.exit.Code == 0 {
		t.Errorf("it ended with %+v", e.exit)
	}
	used, err := s.Usage(within(t), sandbox.Agent)
	if err != nil || used.OOMKills == nil || *used.OOMKills == 0 {
		t.Errorf("used %+v, %v", used, err)
	}
	if !seen.has(func(e evidence.Event) bool { return e.Kind == "oom" && e.Where == sandbox.Agent }) {
		t.Error("nobody is told")
	}
}

// What a guest said last counts once it is gone.
func TestUsageOfWhatIsGone(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
	if err := s.containers[sandbox.Agent].Guest.Close(); err != nil {
		t.Fatal(err)
	}
	used, err := s.Usage(within(t), sandbox.Agent)
	if err != nil || used.Memory == nil || used.Memory.Peak <= 0 {
		t.Errorf("used %+v, %v", used, err)
	}
}
