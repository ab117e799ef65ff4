package containers

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

func TestContextHost(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := contextHost(dir, ""); got != "" {
		t.Errorf("without configuration: %q", got)
	}
	write("config.json", `{"currentContext": "colima"}`)
	// printf colima | sha256sum
	write("contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/meta.json",
		`{"Name": "colima", "Endpoints": {"docker": {"Host": "unix:///run/colima.sock"}}}`)
	if got, want := contextHost(dir, ""), "unix:///run/colima.sock"; got != want {
		t.Errorf("current context: %q, want %q", got, want)
	}
	if got := contextHost(dir, "default"); got != "" {
		t.Errorf("default context: %q", got)
	}
	if got := contextHost(dir, "unknown"); got != "" {
		t.Errorf("unknown context: %q", got)
	}
}

// A busy engine takes connections and answers late: that is not to be called no engine.
func TestSilentEngine(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	t.Setenv(client.EnvOverrideHost, "unix://"+ln.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := dialEngine(ctx); !errors.Is(err, errEngineSilent) || errors.Is(err, errNoEngine) {
		t.Errorf("an engine that does not answer: %v", err)
	}
	_ = ln.Close()
	if _, err := dialEngine(t.Context()); !errors.Is(err, errNoEngine) {
		t.Errorf("an engine that is gone: %v", err)
	}
}
