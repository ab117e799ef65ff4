// Package dockertest helps tests that use a Docker engine.
//
// It creates nothing on the engine, and removes only images that it is told to remove: a test must
// clean up after itself. Objects are looked up by the id of one run, since others use the engine at
// the same time.
package dockertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// RequireEnv is the environment variable that, if set to 1, makes tests fail rather than
// skip without an engine or an image.
const RequireEnv = "WAZA_REQUIRE_DOCKER"

// lookTimeout limits one request to the engine.
const lookTimeout = 2 * time.Minute

// Require skips the test if no Docker engine is available, or fails it if
// WAZA_REQUIRE_DOCKER is 1.
func Require(t testing.TB) {
	t.Helper()
	if err := reachable(); err != nil {
		Miss(t, "no Docker engine answers; run scripts/setup: %v", err)
	}
}

// Engine returns a client of the engine, which is closed at the end of the test. It
// requires an engine like [Require].
func Engine(t testing.TB) *client.Client {
	t.Helper()
	Require(t)
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Image skips or fails the test, like [Require], if the engine does not have the image.
func Image(t testing.TB, ref string) {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	if _, err := c.ImageInspect(ctx, ref); err != nil {
		Miss(t, "the engine lacks an image; run scripts/setup: %v", err)
	}
}

// RequireRoot skips or fails the test, like [Require], unless it runs as root on Linux.
// what names the feature that needs it.
func RequireRoot(t testing.TB, what string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		Miss(t, "%s needs root on Linux", what)
	}
}

// Tool returns the path of a program that the engine tests use. If it is missing, Tool
// skips or fails the test like [Require].
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Miss(t, "a program is missing; run scripts/setup compose: %v", err)
	}
	return path
}

func dial() (*client.Client, error) {
	return client.New(client.FromEnv)
}

// reachable pings the engine once per process.
var reachable = sync.OnceValue(func() (err error) {
	c, err := dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	_, err = c.Ping(ctx, client.PingOptions{})
	return err
})

// Miss skips the test because something is missing, or fails it if WAZA_REQUIRE_DOCKER is
// 1.
func Miss(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED: "+format, args...)
}
