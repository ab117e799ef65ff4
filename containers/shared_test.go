package containers

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/runner/plan"
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
		bridge := withService(trialOf(b, networkBridge, debian), debian)
		airtight := withService(trialOf(b, networkAirtight, debian), debian)
		airtight.Number = 2
		alone := trialOf(b, networkAirtight, debian) // as shared servers and graders' containers are
		alone.Number, alone.ServersOnly = 3, true
		for _, trial := range []*plan.Trial{bridge, airtight, alone} {
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
	listed := listedAsShared(t)
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		trial := trialOf(b, kind, debian)
		trial.Servers[0].Writable = []string{"/data"}
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

// listedAsShared are the names in the table of docs/isolation.md.
func listedAsShared(t *testing.T) map[string]bool {
	t.Helper()
	document, err := os.ReadFile("../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "\n## What containers share\n")
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
