package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/test/bench/mcppeer"
)

// way is a component that calls go through, measured with and without it.
type way struct {
	name      string
	transport string // to the server
	what      string // "what adds", for descriptions of figures
	through   func(context.Context) (mcppeer.Report, error)
	direct    func(context.Context) (mcppeer.Report, error)
	captured  []mcppeer.Report
	bare      []mcppeer.Report
}

// measureCalls measures single calls over both transports, with and without capture, and
// with and without other tools, in alternating blocks.
func (b *bench) measureCalls(ctx context.Context) (_ []Figure, err error) {
	s, err := b.newSubject(ctx, "bridge")
	if err != nil {
		return nil, err
	}
	d, err := b.directServer(ctx, s.floor)
	if err != nil {
		return nil, err // the sweep in close removes the rest
	}
	defer func() { err = errors.Join(err, b.removeDirect(ctx, d)) }()
	ways := []*way{
		{name: "http", direct: func(ctx context.Context) (mcppeer.Report, error) {
			return b.directLoad(ctx, s.floor, d, "-url", d.url)
		}},
		{name: "stdio", direct: func(ctx context.Context) (mcppeer.Report, error) { return b.directLoad(ctx, s.floor, d, "-exec") }},
	}
	servers := map[string]string{"http": "web", "stdio": "stock"}
	for _, w := range ways {
		load := append([]string{"-url", "http://" + servers[w.name] + "/mcp"}, b.loadArgs(b.sizes.Calls)...)
		trial, err := b.plan(ctx, settings{network: "bridge", agent: commandAgent(load)})
		if err != nil {
			return nil, err
		}
		w.what = "capture adds to a call of 400 bytes over " + w.name
		w.through = func(ctx context.Context) (mcppeer.Report, error) { return b.capturedLoad(ctx, trial) }
	}
	others, leftOut, stop := b.startTools(ctx, tools())
	defer stop()
	var echoes []float64
	for range b.sizes.Blocks {
		for _, w := range slices.Concat(ways, others) {
			if err := w.block(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
		took, err := b.echoes(ctx, s.floor)
		if err != nil {
			return nil, err
		}
		echoes = append(echoes, took...)
	}
	var figures []Figure
	for _, w := range ways {
		figures = append(figures, w.figures(percentile(echoes, 50))...)
	}
	figures[0].Notes = leftOut
	for _, w := range others {
		ours := ways[slices.IndexFunc(ways, func(x *way) bool { return x.name == w.transport })]
		figures = append(figures, w.added(50), w.against(ours))
	}
	return figures, nil
}

func (b *bench) loadArgs(calls int) []string {
	return []string{"-calls", fmt.Sprint(calls), "-warm", fmt.Sprint(b.sizes.Warm)}
}

// commandAgent returns the configuration of an agent that is the peer.
func commandAgent(load []string) string {
	args, _ := json.Marshal(append([]string{"load"}, load...))
	return fmt.Sprintf("  executor: command\n  agent: {command: /peer, args: %s, prompt: stdin}", args)
}

// capturedLoad runs a trial and returns the report of its agent.
func (b *bench) capturedLoad(ctx context.Context, trial *plan.Trial) (mcppeer.Report, error) {
	out, err := b.trialsOf(ctx, trial, 1, 1, nil)
	if err != nil {
		return mcppeer.Report{}, err
	}
	return readReport(out.dirs[0])
}

// block runs one block of calls with the component and one without it.
func (w *way) block(ctx context.Context) error {
	captured, err := w.through(ctx)
	if err != nil {
		return err
	}
	bare, err := w.direct(ctx)
	if err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	w.captured, w.bare = append(w.captured, captured), append(w.bare, bare)
	return nil
}

// added returns the latency that the component adds at percentile p.
func (w *way) added(p int) Figure {
	captured, bare := pooled(w.captured), pooled(w.bare)
	samples := map[string][]float64{}
	for _, p := range []int{50, 99} {
		samples[fmt.Sprintf("captured_p%d_ms", p)] = []float64{percentile(captured, p)}
		samples[fmt.Sprintf("direct_p%d_ms", p)] = []float64{percentile(bare, p)}
	}
	return Figure{
		Name: fmt.Sprintf("call_added_ms.%s.p%d", w.name, p), Samples: samples,
		What:  fmt.Sprintf("what %s, of %d each way", w.what, len(captured)),
		Value: percentile(captured, p) - percentile(bare, p),
	}
}

// figures returns the added latency, also relative to an echo through the engine, and the
// call rate of one agent.
func (w *way) figures(echo float64) []Figure {
	var elapsed time.Duration
	calls := 0
	for _, r := range w.captured {
		elapsed += time.Duration(r.Ended-r.Began) * time.Microsecond
		calls += len(r.Micros)
	}
	p50 := w.added(50)
	vs := Figure{
		Name: "call_added_vs_echoes." + w.name, Samples: map[string][]float64{"echo_p50_ms": {echo}},
		What:  fmt.Sprintf("that p50, against %d echoes of as many bytes over the engine's pipe to an attached container", passes),
		Value: p50.Value / (passes * echo),
	}
	perSecond := Figure{
		Name: "calls_per_second." + w.name + ".1", What: "captured calls a second of one agent over " + w.name,
		Value: float64(calls) / elapsed.Seconds(),
	}
	return []Figure{p50.atMost(0.3), w.added(99), vs.atMost(1), perSecond.atLeast(2500)}
}

// readReport reads the report that the peer printed when run as an agent.
func readReport(dir evidence.Dir) (mcppeer.Report, error) {
	var r mcppeer.Report
	said, err := os.ReadFile(filepath.Join(string(dir), evidence.StdoutFile))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(said, &r)
}

// pooled returns the durations of all calls of reports, in milliseconds.
func pooled(reports []mcppeer.Report) []float64 {
	var all []float64
	for _, r := range reports {
		for _, micros := range r.Micros {
			all = append(all, float64(micros)/1000)
		}
	}
	return all
}

// direct is a network with a server on it that clients reach without capture.
type direct struct {
	network string
	subnet  netip.Prefix
	server  string // container ID
	url     string
}

// directServer starts an HTTP server in a container like that of a trial's server, but on a
// network.
func (b *bench) directServer(ctx context.Context, s shape) (d direct, err error) {
	d.network = "waza-" + b.run + "-direct"
	if d.subnet, err = b.makeNetwork(ctx, d.network, *s.network); err != nil {
		return d, err
	}
	server, err := s.role("server")
	if err != nil {
		return d, err
	}
	server.offset = 3 // next to the agent's
	addr := netip.AddrPortFrom(server.addr(d.subnet), port)
	server.conf.Cmd = []string{"http", addr.String()}
	d.url = "http://" + addr.String() + "/mcp"
	d.server, err = b.startBare(ctx, server, d.network, d.subnet)
	return d, err
}

func (b *bench) removeDirect(ctx context.Context, d direct) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := b.engine.remove(ctx, d.server)
	_, unremoved := b.engine.NetworkRemove(ctx, d.network, client.NetworkRemoveOptions{})
	return errors.Join(err, unremoved)
}

// directLoad runs a client in a container like that of an agent, with direct access to the
// server, and returns its report.
func (b *bench) directLoad(ctx context.Context, s shape, d direct, load ...string) (_ mcppeer.Report, err error) {
	agent, err := s.role("agent")
	if err != nil {
		return mcppeer.Report{}, err
	}
	agent.conf.Cmd = append(append([]string{"load"}, load...), b.loadArgs(b.sizes.Calls)...)
	agent.conf.OpenStdin, agent.conf.StdinOnce = false, false
	agent.host.AutoRemove, agent.host.LogConfig = false, container.LogConfig{Type: "json-file"}
	id, err := b.startBare(ctx, agent, d.network, d.subnet)
	if id != "" {
		defer func() { err = errors.Join(err, b.engine.remove(context.WithoutCancel(ctx), id)) }()
	}
	if err != nil {
		return mcppeer.Report{}, err
	}
	return b.heard(ctx, id)
}

// heard waits for a client to exit and reads its report.
func (b *bench) heard(ctx context.Context, id string) (r mcppeer.Report, err error) {
	wait := b.engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	var code int64
	select {
	case status := <-wait.Result:
		code = status.StatusCode
	case err := <-wait.Error:
		return r, err
	}
	logs, err := b.engine.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, logs); err != nil {
		return r, err
	}
	if code != 0 {
		return r, fmt.Errorf("the client exited with code %d: %s", code, strings.TrimSpace(stderr.String()))
	}
	return r, json.Unmarshal(stdout.Bytes(), &r)
}
