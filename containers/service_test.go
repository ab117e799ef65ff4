package containers

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// dbPort is where the services of these tests listen.
const dbPort = "7000"

// withService gives the sandbox's first server a service db on an image.
func withService(trial *sandbox.Spec, image string) *sandbox.Spec {
	ctr := containerOf(image)
	ctr.Disk = 64 << 20
	trial.Container("s0").Disk, trial.Container("s0").Memory = ctr.Disk, 256<<20
	addService(trial, "s0", "db", ctr, 7000)
	return trial
}

// serveEcho starts the echo service in a server's db, and puts its other end into
// that server.
func serveEcho(t *testing.T, s *trialSandbox, echo []byte) process.Process {
	t.Helper()
	for _, ctr := range []string{"s0", "s0/db"} {
		if err := s.Put(within(t), ctr, "/tmp", bytes.NewReader(echo)); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, s, "127.0.0.1:"+dbPort)
	check := process.Spec{Args: []string{"/tmp/echo", "ask", "127.0.0.1:" + dbPort, "1", "1"}}
	if err := s.Ready(within(t), "s0", "db", check, func(string) {}); err != nil {
		t.Fatal(err)
	}
	return p
}

// serve starts the echo service, which lasts until its sandbox ends.
func serve(t *testing.T, s *trialSandbox, address string) process.Process {
	t.Helper()
	p, err := s.Start(within(t), "s0/db", process.Spec{Args: []string{"/tmp/echo", "serve", address}})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, p.Stdout()) }()
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	return p
}

func TestServiceIsReached(t *testing.T) {
	echo := program(t, "echo")
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		one := withService(trialOf(b, kind, debian), debian)
		one.Container("s0").Pids = 512 // on a machine under load Go starts a thread for each call that it waits for
		one.Container("s0/db").Pids = 512
		s, _ := stand(t, b, one)
		if e := sh(t, s, "s0", "echo > /dev/tcp/db/"+dbPort); e.exit.Code == 0 {
			t.Error("the service is reached before it is ready")
		}
		serveEcho(t, s, echo)
		for _, ask := range []string{"1 0", "1 1", "200 1000", "4 16777216"} {
			mustSh(t, s, "s0", "/tmp/echo ask db:"+dbPort+" "+ask)
		}
		if hosts := mustSh(t, s, "s0", "getent hosts db"); !strings.HasPrefix(hosts, "127.0.2.1 ") {
			t.Errorf("db is at %q", hosts)
		}
		if e := sh(t, s, "s0", "/tmp/echo ask db:7001 1 1"); e.exit.Code == 0 {
			t.Error("another port of the service answers")
		}
	})
}

// Nobody but its server reaches a service, and it reaches nobody.
func TestServiceStandsAlone(t *testing.T) {
	echo, program := program(t, "echo"), attacker(t)
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		trial := withService(trialOf(b, kind, debian, debian), debian)
		addService(trial, "s0", "other", trial.Container("s0/db").Container, 7000)
		for i := range trial.Containers {
			trial.Containers[i].Disk = 64 << 20
		}
		s, seen := stand(t, b, trial)
		if _, err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		serveEcho(t, s, echo)
		for _, ctr := range []string{"s0", "s1", "s0/other"} { // targets
			if _, err := s.containers[ctr].Guest.Listen(t.Context(), "0.0.0.0:8080"); err != nil {
				t.Fatal(err)
			}
		}
		host := newVictim(t)
		attempts := map[string][][2]string{
			sandbox.Agent: {{"db", dbPort}, {"127.0.2.1", dbPort}, {"s0", dbPort}},
			"s1":          {{"db", dbPort}, {"127.0.2.1", dbPort}, {"s0", dbPort}},
			"s0/other":    {{"db", dbPort}, {"127.0.2.1", dbPort}, {"s0", "8080"}, {"s0", "80"}},
			"s0/db":       {{"other", "8080"}, {"127.0.2.2", "8080"}, {"s0", "8080"}, {"s1", "8080"}, {"s0", "80"}, {"agent", "8080"}, {"agent", "80"}, {"127.0.1.1", "80"}, {nowhere, "80"}},
		}
		for _, address := range hostAddrs(t) {
			attempts["s0/db"] = append(attempts["s0/db"], [2]string{address, host.port})
		}
		for ctr, aims := range attempts {
			arm(t, s.containers[ctr].Guest, program)
			for _, aim := range aims {
				if done, _ := attack(t, startIn(s.containers[ctr].Guest), "tcp", aim[0], aim[1]); done {
					t.Errorf("%s reached %s", ctr, aim)
				}
			}
		}
		if got := host.reached(t); got != "" {
			t.Errorf("the service reached the host: %s", got)
		}
		arm(t, s.containers["s0"].Guest, program)
		if done, said := attack(t, startIn(s.containers["s0"].Guest), "tcp", "db", dbPort); !done {
			t.Errorf("the server does not reach its service: %s", said)
		}
		dockertest.Await(t, time.Minute, "the question for a service of another server is told", func() bool {
			return seen.has(func(e evidence.Event) bool {
				return e.Kind == "dns" && e.Where == "s1" && e.Data["name"] == "db" && e.Data["answered"] == false
			})
		})
	})
}

// What testcontainers made is what was planned, and all that it made.
func TestServiceOnTheEngine(t *testing.T) {
	t.Parallel()
	image := buildImage(t, "USER root\nEXPOSE 7000\nVOLUME /var/lib/db\nHEALTHCHECK --interval=1s CMD test -e /tmp/healthy\n")
	b := openRun(t)
	trial := withService(trialOf(b, sandbox.NetworkBridge, debian), image)
	addService(trial, "s0", "healthy", trial.Container("s0/db").Container, 7000)
	stand(t, b, trial)
	services := inspectAll(t, b.run)[sandbox.RoleService]
	if len(services) != 2 {
		t.Fatalf("%d services, want 2", len(services))
	}
	for _, c := range services {
		checkContainer(t, c, b.run)
		want := labels(b.run, "task/1", sandbox.RoleService)
		want[labelSession] = b.run
		maps.DeleteFunc(c.Config.Labels, func(key, _ string) bool {
			image := []string{labelImage, labelParent, images.LabelContent}
			return strings.HasPrefix(key, "org.opencontainers.") || slices.Contains(image, key)
		})
		if diff := cmp.Diff(want, c.Config.Labels); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", c.Name, diff)
		}
		if !c.Config.NetworkDisabled || len(c.NetworkSettings.Networks) != 0 || len(c.Config.Env) != len(trialEnv(t, b, image)) {
			t.Errorf("%s is on %s with %q", c.Name, c.HostConfig.NetworkMode, c.Config.Env)
		}
		if !slices.Equal(c.Config.Healthcheck.Test, []string{"NONE"}) {
			t.Errorf("the engine runs the health check %q in %s, past its guest", c.Config.Healthcheck.Test, c.Name)
		}
	}
	engine := dockertest.Engine(t)
	networks, err := engine.NetworkList(t.Context(), client.NetworkListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(networks.Items, func(n network.Summary) bool { return n.Name == testcontainers.ReaperDefault }) {
		t.Error("testcontainers made a network")
	}
	all, err := engine.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(all.Items, func(c container.Summary) bool { return strings.Contains(c.Image, "ryuk") }) {
		t.Error("testcontainers started its reaper")
	}
}

// trialEnv is the environment that an image brings.
func trialEnv(t *testing.T, b *Backend, image string) []string {
	t.Helper()
	found, err := b.engine.ImageInspect(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	return found.Config.Env
}

func TestReady(t *testing.T) {
	t.Parallel()
	image := buildImage(t, "HEALTHCHECK --interval=1s --retries=1 CMD cat /tmp/healthy 2>&1\n")
	b := openRun(t)
	trial := withService(trialOf(b, sandbox.NetworkAirtight, debian), debian)
	ctr := trial.Container("s0/db").Container
	ctr.Image = image
	addService(trial, "s0", "healthy", ctr, 7000)
	s, _ := stand(t, b, trial)
	sh := func(script string) process.Spec {
		return process.Spec{Args: []string{"/bin/sh", "-c", script}, Env: []string{"NAME=value"}}
	}
	tests := []struct {
		name, service string
		check         process.Spec
		want          string // in the error
	}{
		{"never", "db", sh("echo not yet; exit 3"), "its check exited with code 3: not yet"},
		{"signalled", "db", sh("kill -9 $$"), "its check was ended by SIGKILL"},
		{"hangs", "db", sh("echo waiting; trap '' TERM; sleep 60"), "its check did not end: waiting"},
		{"missing", "db", process.Spec{Args: []string{"no-such-program"}}, "no-such-program"},
		{"no such health check", "db", process.Spec{}, "its image has no HEALTHCHECK; give it ready.exec"},
		{"unhealthy", "healthy", process.Spec{}, "its check exited with code 1: cat: /tmp/healthy: No such file"},
		{"no service", "none", sh("true"), "no container"},
	}
	var asked sync.WaitGroup
	for _, test := range tests {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			start := time.Now()
			told := ""
			err := s.Ready(ctx, "s0", test.service, test.check, func(found string) { told = found })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.want)
			}
			if ended := strings.Contains(test.want, " exited "); ended && !strings.Contains(told, test.want) {
				t.Errorf("%s: it told %q", test.name, told)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%s: it took %v", test.name, took)
			}
		})
	}
	asked.Wait()
	mustSh(t, s, "s0/healthy", "echo fine > /tmp/healthy")
	if err := s.Ready(within(t), "s0", "healthy", process.Spec{}, func(string) {}); err != nil {
		t.Error(err)
	}
	if err := s.Ready(within(t), "s0", "db", sh("n=$(cat /tmp/n 2>/dev/null || echo 0); echo $((n+1)) > /tmp/n; test $n -ge 2 && test $NAME = value"), func(string) {}); err != nil {
		t.Error(err)
	}
}

// A sandbox closes with connections to a service open, and leaves nothing.
func TestCloseWithConnections(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := withService(trialOf(b, sandbox.NetworkBridge, debian), debian)
	s, _ := stand(t, b, trial)
	serveEcho(t, s, program(t, "echo"))
	p, err := s.Start(within(t), "s0", process.Spec{Args: []string{"/tmp/echo", "hold", "db:" + dbPort, "50"}})
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 7)
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	if _, err := io.ReadFull(p.Stdout(), said); err != nil || string(said) != "holding" {
		t.Fatalf("%q, %v", said, err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stdout()) }()
	if err := s.Close(t.Context()); err != nil { // it has a time limit of its own
		t.Error(err)
	}
	noTrialObjects(t, b, trial)
}

// When the service's program ends, its connections do, and new ones are refused.
func TestServiceEnds(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	s, _ := stand(t, b, withService(trialOf(b, sandbox.NetworkAirtight, debian), debian))
	service := serveEcho(t, s, program(t, "echo"))
	p, err := s.Start(within(t), "s0", process.Spec{Args: []string{"/bin/bash", "-c", "exec 3<>/dev/tcp/db/" + dbPort + "; echo x >&3; read -u 3 x; echo held; read -u 3 x; echo ended $?"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	said := bufio.NewReader(p.Stdout())
	if line, err := said.ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := service.Signal(process.Kill); err != nil {
		t.Fatal(err)
	}
	if line, err := said.ReadString('\n'); line != "ended 1\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if e := sh(t, s, "s0", "/tmp/echo ask db:"+dbPort+" 1 1"); e.exit.Code == 0 {
		t.Error("a dead service answers")
	}
}
