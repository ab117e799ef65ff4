// Package dockertest holds what tests that use a Docker engine share.
//
// It makes nothing on the engine and removes nothing but images it is told to: what
// a test makes is the test's to take away. Everything is looked up by the id of one
// run, since others use the engine at the same time.
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

	"github.com/docker/docker/client"
)

// RequireEnv names the variable that turns skipping for want of an engine or an
// image into failing, when it is 1.
const RequireEnv = "WAZA_REQUIRE_DOCKER"

// lookTimeout bounds one question to the engine.
const lookTimeout = 30 * time.Second

// Require skips the test when no Docker engine answers, or fails it where
// WAZA_REQUIRE_DOCKER is 1.
func Require(t testing.TB) {
	t.Helper()
	if err := reachable(); err != nil {
		Miss(t, "no Docker engine answers; run scripts/setup: %v", err)
	}
}

// Engine returns a client of the engine, closed when the test ends. It requires one as
// [Require] does.
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

// Image skips or fails the test, as [Require] does, unless the engine has the
// image.
func Image(t testing.TB, ref string) {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	if _, err := c.ImageInspect(ctx, ref); err != nil {
		Miss(t, "the engine lacks an image; run scripts/setup: %v", err)
	}
}

// RequireRoot skips or fails the test, as [Require] does, unless it runs as root on
// Linux, which what it names needs.
func RequireRoot(t testing.TB, what string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		Miss(t, "%s needs root on Linux", what)
	}
}

// Tool returns the path of a program that works on the engine too. It skips or fails the
// test, as [Require] does, where the program is missing.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Miss(t, "a program is missing; run scripts/setup compose: %v", err)
	}
	return path
}

func dial() (*client.Client, error) {
	return client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
}

// reachable asks once per process.
var reachable = sync.OnceValue(func() (err error) {
	c, err := dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	_, err = c.Ping(ctx)
	return err
})

// Miss skips the test for want of something, loudly, or fails it where WAZA_REQUIRE_DOCKER
// is 1.
func Miss(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf("SKIPPED: "+format, args...)
}
