package containers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waza-isolate/waza/sandbox"
)

// A sandbox works over sockets, and over pipes where a socket cannot be made. No program in
// a container finds a socket to connect to, or may make one there.
func TestTransport(t *testing.T) {
	for want, dir := range map[string]string{"socket": t.TempDir(), "pipe": filepath.Join(t.TempDir(), "missing")} {
		t.Run(want, func(t *testing.T) {
			t.Setenv("TMPDIR", dir)
			b := openRun(t)
			if got := b.Describe()["transport"]; got != want {
				t.Errorf("the transport is %q, want %q", got, want)
			}
			s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight, debian))
			found := mustSh(t, s, sandbox.Agent, "ls -A /run/waza 2>/dev/null; touch /run/waza/mine 2>/dev/null && echo made; true")
			if found != "" {
				t.Errorf("in the directory of the socket: %q", found)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left on the host: %v", left)
			}
		})
	}
}

// What a runner that was killed left of its sockets goes with the next gc, and no socket that
// may still be waited for does.
func TestOldSocketsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	left, fresh := filepath.Join(dir, "waza-mux-1"), filepath.Join(dir, "waza-mux-2")
	for _, dir := range []string{left, fresh} {
		if err := os.MkdirAll(filepath.Join(dir, "s"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := removeOldSockets(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh one: %v", err)
	}
}
