package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/test/bench/mcppeer"
)

const (
	installTimeout = 15 * time.Minute
	answerTimeout  = 30 * time.Second // of a tool, from its start
)

// tool is a third-party program that runs between an MCP client on HTTP and a server, as
// capture does. It runs without containers.
type tool struct {
	name, version string
	transport     string   // to the server: http or stdio
	install       []string // install command, run in the directory of the tool
	start         []string // PORT is replaced by the port to serve on, PEER by the server's executable, SERVER by its HTTP address
}

func tools() []tool {
	npm := func(name string) []string {
		return []string{"npm", "install", "--prefix", ".", "--ignore-scripts", "--no-audit", "--no-fund", "--before", "2026-11-25", name}
	}
	return []tool{
		{
			"supergateway", "4.0.0", "stdio", npm("supergateway@4.0.0"),
			[]string{"node", "node_modules/supergateway/dist/index.js", "--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none", "--port", "PORT", "--stdio", "PEER stdio"},
		},
		{
			"mcp-proxy", "6.7.19", "stdio", npm("mcp-proxy@6.7.19"),
			[]string{"node", "node_modules/.bin/mcp-proxy", "--host", "127.0.0.1", "--server", "stream", "--port", "PORT", "--", "PEER", "stdio"},
		},
		{
			// The last version that supports the Go version of go.mod.
			"toolhive", "0.47.0", "http", []string{"go", "install", "github.com/stacklok/toolhive/cmd/thv@v0.47.0"},
			[]string{"./thv", "proxy", "bench", "--target-uri", "http://SERVER", "--port", "PORT"},
		},
	}
}

// startTools starts tools. For each that cannot be started, leftOut says why.
func (b *bench) startTools(ctx context.Context, tools []tool) (ways []*way, leftOut []string, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, t := range tools {
		if b.tools == "" {
			break
		}
		w, err := b.startTool(ctx, t, &running)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%s %s is left out: %v", t.name, t.version, err))
			continue
		}
		ways = append(ways, w)
	}
	return ways, leftOut, func() {
		cancel()
		running.Wait()
	}
}

// startTool starts a tool, and its server if that uses HTTP, and waits until it responds.
// Both run until ctx ends.
func (b *bench) startTool(ctx context.Context, t tool, running *sync.WaitGroup) (*way, error) {
	dir, err := b.install(ctx, t)
	if err != nil {
		return nil, err
	}
	peer, err := filepath.Abs(b.peer)
	if err != nil {
		return nil, err
	}
	server, serverErr := freeAddr()
	addr, err := freeAddr()
	if err = errors.Join(err, serverErr); err != nil {
		return nil, err
	}
	start := func(args ...string) {
		// An error shows up in the requests below.
		running.Go(func() {
			_ = proc.Run(ctx, proc.Command{Args: args, Dir: dir, Env: append(os.Environ(), "HOME="+b.dir, "CI=true")}) // CI disables update checks
		})
	}
	direct := []string{"-exec"}
	if t.transport == "http" {
		start(peer, "http", server)
		direct = []string{"-url", "http://" + server + "/mcp"}
	}
	_, port, _ := strings.Cut(addr, ":")
	words := strings.NewReplacer("PEER", peer, "SERVER", server, "PORT", port)
	args := make([]string, len(t.start))
	for i, arg := range t.start {
		args[i] = words.Replace(arg)
	}
	start(args...)
	through := []string{"-url", "http://" + addr + "/mcp"}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		_, err := b.hostLoad(ctx, through...)
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(began) > answerTimeout {
			return nil, fmt.Errorf("it was started and does not answer: %w", err)
		}
	}
	load := func(args []string) func(context.Context) (mcppeer.Report, error) {
		args = append(args, b.loadArgs(b.sizes.Calls)...)
		return func(ctx context.Context) (mcppeer.Report, error) { return b.hostLoad(ctx, args...) }
	}
	return &way{
		name: t.name, transport: t.transport, through: load(through), direct: load(direct),
		what: fmt.Sprintf("%s %s adds, without containers, to a call of 400 bytes over %s", t.name, t.version, t.transport),
	}, nil
}

// against compares the latency that capture adds with that of a tool.
func (w *way) against(capture *way) Figure {
	return Figure{
		Name: "call_added_vs." + w.name, What: fmt.Sprintf("what capture adds over %s at the 50th percentile, by that", w.transport),
		Value: capture.added(50).Value / w.added(50).Value,
	}
}

// install returns the directory of a tool, after installing it there if needed.
func (b *bench) install(ctx context.Context, t tool) (string, error) {
	dir, err := filepath.Abs(filepath.Join(b.tools, t.name+"-"+t.version))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(b.stderr, "installing %s %s\n", t.name, t.version)
	made := dir + ".new"
	if err := errors.Join(os.RemoveAll(made), os.MkdirAll(made, 0o755)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	var said bytes.Buffer
	err = proc.Run(ctx, proc.Command{Args: t.install, Dir: made, Env: append(os.Environ(), "GOBIN="+made, "CGO_ENABLED=0"), Stdout: &said, Stderr: &said})
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w: %s", strings.Join(t.install, " "), err, strings.Join(strings.Fields(said.String()), " ")), os.RemoveAll(made))
	}
	return dir, os.Rename(made, dir)
}

// hostLoad runs a client on this machine and returns its report.
func (b *bench) hostLoad(ctx context.Context, args ...string) (r mcppeer.Report, err error) {
	var stdout, stderr bytes.Buffer
	if err := proc.Run(ctx, proc.Command{Args: append([]string{b.peer, "load"}, args...), Stdout: &stdout, Stderr: &stderr}); err != nil {
		return r, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return r, json.Unmarshal(stdout.Bytes(), &r)
}

// freeAddr returns a free loopback address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
