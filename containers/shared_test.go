package containers

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// No container sees a mark of another on its files, or counts with its user: of two
// runs at once, and of two trials at once in each, neither agent, server, service,
// nor what lives for the whole run or for a grader.
func TestAttacks_NothingShared(t *testing.T) {
	var marks []*marked
	for range 2 {
		b := openRun(t)
		bridge := withService(trialOf(b, sandbox.NetworkBridge, debian), debian)
		airtight := withService(trialOf(b, sandbox.NetworkAirtight, debian), debian)
		airtight.Number = 2
		alone := trialOf(b, sandbox.NetworkAirtight, debian) // as shared servers and graders' containers are
		alone.Number, alone.Containers, alone.Reach = 3, alone.Containers[1:], nil
		for _, trial := range []*sandbox.Spec{bridge, airtight, alone} {
			s, _ := stand(t, b, trial)
			for name, ctr := range s.containers {
				p, err := ctr.Guest.Exec(within(t), probeProgram(probe.Shared), false)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				marks = append(marks, newMarked(t, b.run+" "+trial.Network+" "+name, p))
			}
		}
	}
	if len(marks) != 2*(3+3+1) {
		t.Fatalf("%d containers are marked", len(marks))
	}
	for _, m := range marks {
		for name, state := range m.look(t) {
			if state.State != probe.Refused {
				t.Errorf("%s: %s: %s, %s", m.where, name, state.State, state.Detail)
			}
		}
	}
}

// What docs/isolation.md lists as shared is all that is mounted in a container, and every
// namespace that two containers have in common.
func TestWhatIsShared(t *testing.T) {
	listed := listedUnder(t, "What containers share")
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		trial := trialOf(b, kind, debian)
		trial.Container("s0").Writable = []string{"/data"}
		s, _ := stand(t, b, trial)
		namespaces := map[string]string{}
		for _, ctr := range []string{sandbox.Agent, "s0"} {
			for at := range strings.FieldsSeq(mustSh(t, s, ctr, "cut -d ' ' -f 5 /proc/self/mountinfo")) {
				if !listed[at] && !strings.HasPrefix(at, "/sys/fs/cgroup/") && at != "/data" {
					t.Errorf("%s: %s is mounted, and docs/isolation.md does not list it", ctr, at)
				}
			}
			for line := range strings.FieldsSeq(mustSh(t, s, ctr, "cd /proc/self/ns; for n in *; do echo $n=$(readlink $n); done")) {
				name, is, _ := strings.Cut(line, "=")
				if namespaces[name] == is && !listed[strings.TrimSuffix(name, "_for_children")] {
					t.Errorf("the namespace %s is that of both containers, and docs/isolation.md does not list it", name)
				}
				namespaces[name] = is
			}
		}
	})
}

// settings are files of /proc/sys that are called as limits are, and limit nothing that can be used
// up.
var settings = []string{
	"fs.fuse.max_pages_limit", "fs.fuse.max_request_timeout", "kernel.core_file_note_size_limit", "kernel.max_lock_depth",
	"kernel.max_rcu_stall_to_panic", "kernel.ngroups_max", "kernel.numa_balancing_promote_rate_limit_MBps", "kernel.oops_limit",
	"kernel.random.write_wakeup_threshold", "kernel.sched_deadline_period_max_us", "kernel.warn_limit", "kernel.watchdog_thresh",
	"net.core.flow_limit_cpu_bitmap", "net.core.max_skb_frags", "net.ipv4.inet_peer_maxttl", "net.ipv4.neigh.default.proxy_qlen", "net.ipv4.neigh.default.unres_qlen",
	"net.ipv4.neigh.default.unres_qlen_bytes", "net.ipv6.mld_max_msf", "net.ipv6.neigh.default.proxy_qlen",
	"net.ipv6.neigh.default.unres_qlen", "net.ipv6.neigh.default.unres_qlen_bytes", "vm.extfrag_threshold",
	"vm.lowmem_reserve_ratio",
}

// What docs/isolation.md lists as limits of the kernel are all files of /proc/sys that are called as
// limits are, except those that each network namespace has for itself.
func TestLimitsOfTheKernel(t *testing.T) {
	t.Parallel()
	listed := listedUnder(t, "Limits of the kernel")
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight, debian))
	own := map[string]bool{}
	for name := range strings.FieldsSeq(mustSh(t, s, sandbox.Agent, "find /proc/sys/net -type f")) {
		own[name] = true
	}
	called := regexp.MustCompile(`max|limit|thresh|_mem$|backlog|qlen|aio|budget|^kernel\.(msg|sem$|shm)|hugepages|_reserve|overcommit_(k|r)|dirty_(background_)?(bytes|ratio)`)
	err := filepath.WalkDir("/proc/sys", func(path string, d fs.DirEntry, err error) error {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", ".")
		ofInterface := strings.HasPrefix(name, "net.") && (strings.Contains(name, ".conf.") || strings.Contains(name, ".neigh.") && !strings.Contains(name, ".neigh.default."))
		switch {
		case err != nil || d.IsDir() || ofInterface || own[path]:
		case called.MatchString(name) && !listed[name] && !slices.Contains(settings, name):
			t.Errorf("%s is called as a limit is, and docs/isolation.md does not list it", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listedUnder are the names in the first column of a table of docs/isolation.md.
func listedUnder(t *testing.T, heading string) map[string]bool {
	t.Helper()
	document, err := os.ReadFile("../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for row := range strings.Lines(section) {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					listed[name] = true
				}
			}
		}
	}
	if len(listed) < 10 {
		t.Fatalf("docs/isolation.md lists %d names", len(listed))
	}
	return listed
}

func probeProgram(name string) process.Spec {
	return process.Spec{Args: []string{sandbox.GuestPath, probe.Subcommand, name}}
}

// marked is the probe in a container, which has left its marks there.
type marked struct {
	where   string
	process process.Process
	lines   *bufio.Scanner
}

func newMarked(t *testing.T, where string, p process.Process) *marked {
	t.Helper()
	m := &marked{where, p, bufio.NewScanner(p.Stdout())}
	var reading sync.WaitGroup
	var said strings.Builder
	reading.Go(func() { _, _ = io.Copy(&said, p.Stderr()) })
	t.Cleanup(func() {
		_ = p.Stdin().Close()
		_, _ = io.Copy(io.Discard, p.Stdout())
		reading.Wait()
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			t.Errorf("%s: %+v, %v: %s", where, exit, err, said.String())
		}
	})
	if f := m.next(t); f.Attack != probe.Control {
		t.Fatalf("%s: %+v", where, f)
	}
	return m
}

func (m *marked) next(t *testing.T) (f probe.Finding) {
	t.Helper()
	if !m.lines.Scan() {
		t.Fatalf("%s says nothing more: %v", m.where, m.lines.Err())
	}
	if err := json.Unmarshal(m.lines.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// look has it look for the marks of others.
func (m *marked) look(t *testing.T) map[string]probe.Finding {
	t.Helper()
	if _, err := io.WriteString(m.process.Stdin(), "look\n"); err != nil {
		t.Fatal(err)
	}
	found := map[string]probe.Finding{}
	for range 3 {
		f := m.next(t)
		found[f.Attack] = f
	}
	return found
}
