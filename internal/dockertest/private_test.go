package dockertest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
)

const sleeper = "debian:bookworm-slim"

// TestPrivateEngine kills an engine and starts it again, and freezes it: each is
// what it says, others' engine does not notice, and nothing is left.
func TestPrivateEngine(t *testing.T) {
	shared := dockertest.Engine(t)
	var dir string
	t.Run("life", func(t *testing.T) {
		p := dockertest.StartPrivate(t, []string{sleeper})
		dir = filepath.Dir(strings.TrimPrefix(p.Host(), "unix://"))
		id := startSleeper(t, p)
		if _, err := shared.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err == nil {
			t.Error("the shared engine has the container")
		}
		p.Kill()
		if _, err := p.Client().Ping(t.Context(), client.PingOptions{}); err == nil {
			t.Error("a killed engine answers")
		}
		if len(p.Guests()) == 0 {
			t.Error("the container ended with the engine")
		}
		p.Start()
		found, err := p.Client().ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil || found.Container.State.Running {
			t.Errorf("after the restart: %+v, %v", found.Container.State, err)
		}
		p.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := p.Client().Ping(ctx, client.PingOptions{}); err == nil {
			t.Error("a frozen engine answers")
		}
		p.Thaw()
		if _, err := p.Client().Ping(t.Context(), client.PingOptions{}); err != nil {
			t.Errorf("after thawing: %v", err)
		}
		startSleeper(t, p) // left to the cleanup
	})
	if dir == "" {
		t.SkipNow()
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(commands) == 0 {
		t.Fatalf("%d processes, %v", len(commands), err)
	}
	for _, file := range commands {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), dir) {
			t.Errorf("%s: %q", file, line)
		}
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir)); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
}

func startSleeper(t *testing.T, p *dockertest.Private) (id string) {
	t.Helper()
	created, err := p.Client().ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: sleeper, Cmd: []string{"sleep", "600"}, StopSignal: "KILL"},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client().ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return created.ID
}
