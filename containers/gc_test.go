package containers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

// A process with victimEnv in its environment is a runner that will be killed: it opens a
// run of that name and victimTrials sandboxes, and waits.
const (
	victimEnv      = "WAZA_TEST_VICTIM"
	victimGuestEnv = "WAZA_TEST_VICTIM_GUEST"
	victimTrials   = 4
)

func playVictim(run string) {
	ctx := context.Background()
	b, err := Open(ctx, Options{Run: run, Guest: os.Getenv(victimGuestEnv)})
	if err == nil {
		err = openVictims(ctx, b)
	}
	if err == nil { // never started: no stdin that could end it
		_, err = b.engine.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: b.images.guest.ID, Entrypoint: []string{"-"}, Labels: labels(run, "task/5", sandbox.RoleAgent)}})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func openVictims(ctx context.Context, b *Backend) error {
	for number := range victimTrials {
		t := trialOf(b, []string{sandbox.NetworkBridge, sandbox.NetworkAirtight}[number%2], "")
		t.Number, t.Container(sandbox.Agent).Image = number+1, ""
		useVolume(t)
		addService(t, "s0", "db", containerOf(""))
		if _, err := b.Open(ctx, t, func(evidence.Event) {}); err != nil {
			return err
		}
	}
	return nil
}

func startVictim(t *testing.T, run string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+run, victimGuestEnv+"="+dockertest.Waza(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("victim says %q, %v", line, err)
	}
	return cmd
}

func gc(t *testing.T) Garbage {
	t.Helper()
	g, err := GC(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFaults_RunnerKilled(t *testing.T) {
	t.Parallel()
	run := runID(t)
	engine := dockertest.Engine(t)
	cmd := startVictim(t, run)
	if g := gc(t); !slices.Contains(g.Live, run) || slices.Contains(g.Runs, run) {
		t.Fatalf("gc takes a live run for dead: %+v", g)
	}
	const trialContainers = 3 * 4 // agent, server and service, on bridges and airtight
	if got := len(dockertest.Containers(t, engine, run)); got != trialContainers+2 {
		t.Errorf("%d containers stand, want %d", got, trialContainers+2)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	started := func(c container.Summary) bool { return c.State != "created" }
	dockertest.Await(t, dockertest.Dying, "every started container is gone", func() bool {
		return !slices.ContainsFunc(dockertest.Containers(t, engine, run), started)
	})
	gc(t)
	dockertest.NoObjects(t, engine, run)
}

// makeObjects makes what a run can leave: a container that was never started, a
// network and a volume.
func makeObjects(t *testing.T, engine *client.Client, run string, containerLabels map[string]string) {
	t.Helper()
	ctx := within(t)
	dockertest.Image(t, debian)
	if _, err := engine.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: debian, Cmd: []string{"true"}, Labels: containerLabels}}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.NetworkCreate(ctx, "waza-"+run, client.NetworkCreateOptions{Internal: true, Labels: labels(run, "t/1", roleNetwork)}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.VolumeCreate(ctx, client.VolumeCreateOptions{Name: "waza-" + run, Labels: labels(run, wholeRun, roleAside)}); err != nil {
		t.Fatal(err)
	}
}

func TestGCRemovesWhatHasNoLease(t *testing.T) {
	t.Parallel()
	run := runID(t)
	engine := dockertest.Engine(t)
	makeObjects(t, engine, run, labels(run, "t/1", sandbox.RoleAgent))
	connectStranger(t, engine, "waza-"+run)
	gc(t)
	dockertest.NoObjects(t, engine, run)
}

// connectStranger connects a running container that no run knows to a network.
func connectStranger(t *testing.T, engine *client.Client, network string) {
	t.Helper()
	c, err := engine.ContainerCreate(within(t), client.ContainerCreateOptions{
		Config: &container.Config{Image: debian, Cmd: []string{"sleep", "600"}}, HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(network)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engine.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := engine.ContainerStart(within(t), c.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A lease that another machine has created and not yet started is believed while
// it is young.
func TestGCAndForeignLease(t *testing.T) {
	t.Parallel()
	run := runID(t)
	engine := dockertest.Engine(t)
	lease := labels(run, wholeRun, roleLease)
	lease[labelHost], lease[labelBoot], lease[labelPID], lease[labelStart] = "elsewhere", "another", "1", "1"
	makeLease(t, engine, lease)
	makeObjects(t, engine, run, labels(run, "t/1", sandbox.RoleAgent))
	g := gc(t)
	if !slices.Contains(g.Live, run) || len(dockertest.Objects(t, engine, run)) != 4 {
		t.Errorf("gc %+v left %q", g, dockertest.Objects(t, engine, run))
	}
	for _, c := range dockertest.Containers(t, engine, run) {
		if c.Labels[labelRole] == roleLease {
			if _, err := engine.ContainerRemove(t.Context(), c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	gc(t)
	dockertest.NoObjects(t, engine, run)
}

func makeLease(t *testing.T, engine *client.Client, labels map[string]string) {
	t.Helper()
	dockertest.Image(t, debian)
	if _, err := engine.ContainerCreate(within(t), client.ContainerCreateOptions{Config: &container.Config{Image: debian, Cmd: []string{"true"}, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
}

// Runs come and go while gc runs without pause; none of them notices.
func TestFaults_GCBesideLiveRuns(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := GC(context.Background()); err != nil {
				t.Errorf("gc: %v", err)
				return
			}
		}
	})
	defer collector.Wait()
	defer close(stop)
	for range 2 {
		t.Run("run", func(t *testing.T) {
			b := openRun(t)
			for _, network := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
				trial := trialOf(b, network, "")
				useVolume(trial)
				s, _ := stand(t, b, trial)
				mustSh(t, s, sandbox.Agent, "echo here > /workspace/file && cat /workspace/file /etc/waza/mcp.json")
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The age of what is on the engine is told by the engine's clock, wherever ours
// stands.
func TestAgeByTheEnginesClock(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	e := &engine{info: system.Info{SystemTime: at.Format(time.RFC3339Nano)}, asked: time.Now()}
	if got := e.now(); got.Before(at) || got.After(at.Add(time.Hour)) {
		t.Errorf("got %s, want %s and what has passed since", got, at)
	}
	dialled, err := dialEngine(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dialled.Close() }()
	if _, err := time.Parse(time.RFC3339Nano, dialled.info.SystemTime); err != nil {
		t.Errorf("the engine's time: %v", err)
	}
}

// What is found in several rounds is added up, guest images too.
func TestGarbageOfSeveralRounds(t *testing.T) {
	one := Garbage{Runs: []string{"b"}, Live: []string{"x"}, Containers: 1, Networks: 2, Volumes: 3, Images: 4, Guests: 5}
	got := one.plus(Garbage{Runs: []string{"a", "b"}, Containers: 1, Guests: 1})
	want := Garbage{Runs: []string{"a", "b"}, Containers: 2, Networks: 2, Volumes: 3, Images: 4, Guests: 6}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Garbage{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
