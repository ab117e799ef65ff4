package containers

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/process"
)

func TestNamesResolve(t *testing.T) {
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		s, seen := stand(t, b, trialOf(b, kind, debian))
		for _, ctr := range []string{sandbox.Agent, "s0"} {
			asked := time.Now()
			if e := sh(t, s, ctr, "RES_OPTIONS='timeout:30 attempts:1' getent hosts nowhere.example.com"); e.exit.Code == 0 {
				t.Errorf("%s: a foreign name resolves: %s", ctr, e.stdout)
			}
			if took := time.Since(asked); took > 25*time.Second { // a resolver that waits takes 30 s
				t.Errorf("%s: NXDOMAIN took %s", ctr, took)
			}
			dockertest.Await(t, time.Minute, "the question is an event", func() bool {
				return seen.has(func(e evidence.Event) bool {
					return e.Kind == "dns" && e.Where == ctr && e.Data["name"] == "nowhere.example.com" && e.Data["answered"] == false
				})
			})
		}
		want := guests.Airtight.String()
		if kind == sandbox.NetworkBridge {
			want = bridgeAddr(t, s)
			want = want[:strings.LastIndex(want, ".")+1]
		}
		if got := mustSh(t, s, sandbox.Agent, "getent hosts s0"); !strings.HasPrefix(got, want) {
			t.Errorf("the server's name is %q, want %s", got, want)
		}
		if e := sh(t, s, "s0", "getent hosts s0 agent"); e.exit.Code == 0 {
			t.Errorf("names resolve in a server: %s", e.stdout)
		}
	})
}

func TestWorkspaceLimit(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
	for _, dir := range []string{sandbox.WorkspaceDir, "/tmp", sandbox.HomeDir} {
		e := sh(t, s, sandbox.Agent, "head -c 8388608 /dev/zero > "+dir+"/big")
		if e.exit.Code == 0 || !strings.Contains(e.stderr, "No space left on device") {
			t.Errorf("%s took twice its limit: exit %+v, %s", dir, e.exit, e.stderr)
		}
		if size := mustSh(t, s, sandbox.Agent, "stat -c %s "+dir+"/big; rm "+dir+"/big"); size != "4194304" {
			t.Errorf("%s holds %s bytes, want its limit of 4194304", dir, size)
		}
		count := "cd " + dir + "; mkdir $(seq 6000) 2>/dev/null; ls | wc -l"
		if dirs, err := strconv.Atoi(mustSh(t, s, sandbox.Agent, count)); err != nil || dirs >= 4096 || dirs < 4000 {
			t.Errorf("%s holds %d directories, %v, want not quite 4096", dir, dirs, err)
		}
	}
}

func TestWorkspaceVolume(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "4711:12"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			b := openRun(t)
			trial := trialOf(b, sandbox.NetworkAirtight)
			useVolume(trial)
			trial.Container(sandbox.Agent).User = user
			s, _ := stand(t, b, trial)
			got := mustSh(t, s, sandbox.Agent, "echo x > /workspace/file; stat -c '%u:%g' /workspace /workspace/file | uniq")
			if want := s.plan.containers[0].conf.User; got != want || user != "" && got != user {
				t.Errorf("the workspace and a file in it are owned by %q, want %s", got, want)
			}
			missing := strings.Join(s.Guarantees().Missing, "\n")
			if !strings.Contains(missing, "its size is not limited") || strings.Contains(missing, "agent runs as the user that the eval names") != (user != "") {
				t.Errorf("missing guarantees %q, want the size limit named, and who names the user", missing)
			}
		})
	}
}

// What outgrows its memory is ended; the runner hears of it, and the other
// containers stand.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight, debian))
	for _, ctr := range []string{sandbox.Agent, "s0"} {
		e := sh(t, s, ctr, "exec tail /dev/zero")
		if e.err == nil && e.exit.Signal != "SIGKILL" {
			t.Errorf("%s: a program of unlimited memory ended with %+v", ctr, e.exit)
		}
	}
	mustSh(t, s, sandbox.Agent, "true")
	mustSh(t, s, "s0", "true")
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight))
	e := sh(t, s, sandbox.Agent, "for i in $(seq 100); do sleep 60 & done")
	if e.exit.Code == 0 || !strings.Contains(e.stderr, "Cannot fork") {
		t.Errorf("100 processes where 64 are allowed: exit %+v, %s", e.exit, e.stderr)
	}
	// The agent's children went with it; process 1 may not have waited for all of them yet.
	mustSh(t, s, sandbox.Agent, "for i in $(seq 50); do test $(ls -d /proc/[0-9]* | wc -l) -lt 8 && exit; sleep 0.1; done; exit 1")
}

// Environment goes to the program, and the engine never hears of it.
func TestEnvironmentIsNoConfig(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkBridge, debian))
	const secret = "hunter2-of-the-server"
	p, err := s.Start(within(t), "s0", process.Spec{Args: []string{"/bin/sh", "-c", "echo $TOKEN; read x"}, Env: []string{"TOKEN=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, _ := p.Stdout().Read(line)
	if got := strings.TrimSpace(string(line[:n])); got != secret {
		t.Errorf("the program has %q", got)
	}
	for role, all := range inspectAll(t, b.run) {
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("inspecting %s shows the secret", role)
		}
	}
	if e := sh(t, s, sandbox.Agent, "cat /proc/[0-9]*/environ"); strings.Contains(e.stdout, secret) {
		t.Error("the agent sees the secret")
	}
	_ = p.Stdin().Close()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// Close may be called by anybody, any number of times; when it returns, nothing
// of the trial is there any more.
func TestClose(t *testing.T) {
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		trial := trialOf(b, kind, debian)
		useVolume(trial)
		s, _ := stand(t, b, trial)
		if _, err := s.Start(within(t), sandbox.Agent, process.Spec{Args: []string{"/bin/sh", "-c", "trap '' TERM HUP INT; setsid sleep 60 & sleep 60"}}); err != nil {
			t.Fatal(err)
		}
		var closers sync.WaitGroup
		for range 4 {
			closers.Go(func() {
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
				noTrialObjects(t, b, trial)
			})
		}
		closers.Wait()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := s.Start(within(t), sandbox.Agent, process.Spec{Args: []string{"true"}}); err == nil {
			t.Error("a program starts in a closed sandbox")
		}
	})
}

// noTrialObjects fails the test if the engine has anything of the trial.
func noTrialObjects(t *testing.T, b *Backend, trial *sandbox.Spec) {
	t.Helper()
	all, err := (sweeper{b.engine}).find(context.Background(), allRuns())
	if err != nil {
		t.Error(err)
		return
	}
	of := func(labels map[string]string) bool {
		return labels[labelRun] == b.run && labels[labelTrial] == trial.Label()
	}
	for _, c := range all.containers {
		if of(c.Labels) {
			t.Errorf("container %v (%s) is left", c.Names, c.State)
		}
	}
	for _, n := range all.networks {
		if of(n.Labels) {
			t.Errorf("network %s is left", n.Name)
		}
	}
	for _, v := range all.volumes {
		if of(v.Labels) {
			t.Errorf("volume %s is left", v.Name)
		}
	}
}
