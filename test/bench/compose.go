package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// compose is a docker-compose project with the three services of a trial. Debian provides
// version 1.29.
type compose struct {
	path    string
	version string
	project string
	file    string // empty before write
}

// findCompose looks up docker-compose in PATH and reads its version.
func findCompose(ctx context.Context) (*compose, error) {
	path, err := exec.LookPath("docker-compose")
	if err != nil {
		return nil, errors.New("docker-compose is missing, which trials are compared with: run scripts/setup compose, or leave it out with -only throughput,calls,crowd")
	}
	version, err := exec.CommandContext(ctx, path, "version", "--short").Output()
	if err != nil {
		return nil, fmt.Errorf("docker-compose does not say its version: %w", err)
	}
	var random [4]byte
	_, _ = rand.Read(random[:])
	return &compose{path: path, version: strings.TrimSpace(string(version)), project: "wazabench" + hex.EncodeToString(random[:])}, nil
}

// composeText is a typical file for an agent that starts once its two servers are healthy,
// with health checks every second.
const composeText = `version: "2.4"
services:
  stock:
    image: %[1]s
    command: [stdio]
    stdin_open: true
    healthcheck: {test: [CMD, /peer, health], interval: 1s, retries: 30}
  web:
    image: %[1]s
    command: [http, "0.0.0.0:%[2]d"]
    healthcheck: {test: [CMD, /peer, health, "http://127.0.0.1:%[2]d/mcp"], interval: 1s, retries: 30}
  agent:
    image: %[1]s
    command: [load, -url, "http://web:%[2]d/mcp"]
    depends_on:
      stock: {condition: service_healthy}
      web: {condition: service_healthy}
`

func (c *compose) write(dir, image string) error {
	c.file = filepath.Join(dir, "docker-compose.yml")
	return os.WriteFile(c.file, fmt.Appendf(nil, composeText, image, port), 0o600)
}

// upAndDown returns the time to start the services, up to the agent, and to remove them.
func (c *compose) upAndDown(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := c.do(ctx, "up", "-d"); err != nil {
		return 0, err
	}
	if err := c.do(ctx, "down"); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// down removes the services if there are any.
func (c *compose) down(ctx context.Context) error {
	if c.file == "" {
		return nil
	}
	return c.do(ctx, "down", "--timeout", "1", "--remove-orphans")
}

func (c *compose) do(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.path, append([]string{"--project-name", c.project, "--file", c.file}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C must not reach it directly
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker-compose %s: %w\n%s", args[0], err, out)
	}
	return nil
}
