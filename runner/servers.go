package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/mcpproxy"
	"github.com/waza-isolate/waza/runner/process"
)

// makeServers says how each server of the trial is reached: one that speaks stdio
// is started for each session, one that speaks HTTP now, and a remote one is there.
func (tr *trialRun) makeServers(ctx context.Context) error {
	for _, s := range tr.plan.Servers {
		server, err := tr.makeServer(ctx, s)
		if err != nil {
			return err
		}
		tr.servers = append(tr.servers, server)
	}
	return nil
}

func (tr *trialRun) makeServer(ctx context.Context, s Server) (mcpproxy.Server, error) {
	log, err := tr.serverLog(s.Name)
	if err != nil {
		return mcpproxy.Server{}, err
	}
	server := mcpproxy.Server{Name: s.Name, Start: s.StartupTimeout, Timeout: s.Timeout, Stderr: log, Tools: s.expanded.Shown()}
	if s.Remote {
		server.Upstream, err = tr.remote(s)
		return server, err
	}
	spec := serverProcess(s.expanded, tr.sandbox.Layout(s.Name).Home)
	server.Launch = func(ctx context.Context) (process.Process, error) {
		return tr.sandbox.Start(ctx, s.Name, spec)
	}
	switch s.Transport {
	case mcpconfig.HTTP, mcpconfig.SSE:
		return tr.startServer(ctx, s, server)
	}
	return server, nil
}

// serverProcess is a server's program; without a command it is its image's own.
func serverProcess(config mcpconfig.Server, home string) process.Spec {
	spec := process.Spec{Dir: cmp.Or(config.Cwd, config.WorkingDir)}
	if home != "" {
		spec.Env = []string{"HOME=" + home}
	}
	if config.Command != "" {
		spec.Args = append([]string{config.Command}, config.Args...)
	}
	for _, key := range slices.Sorted(maps.Keys(config.Env)) {
		spec.Env = append(spec.Env, key+"="+config.Env[key])
	}
	return spec
}

// serverLog keeps a server's stderr, and shows it where that was asked for.
func (tr *trialRun) serverLog(name string) (io.Writer, error) {
	file, err := tr.rec.ServerLog(name)
	if err != nil {
		return nil, err
	}
	tr.logs = append(tr.logs, file)
	if tr.run.o.ServerLog == nil {
		return file, nil
	}
	return io.MultiWriter(file, tr.run.o.ServerLog(tr.plan, name)), nil
}

// fillServers puts each server's files into its box.
func (tr *trialRun) fillServers(ctx context.Context) error {
	for _, s := range tr.plan.Servers {
		if err := tr.put(ctx, s.Name, "/", s.Files); err != nil {
			return fmt.Errorf("files of server %q: %w", s.Name, err)
		}
	}
	return nil
}

// probe has every server answer once, through MCP, in a process that is gone
// again before the agent starts.
func (tr *trialRun) probe(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range tr.servers {
		group.Go(func() error {
			_, err := mcpproxy.Probe(ctx, tr.rec, mcpproxy.Limits{}, server)
			return err
		})
	}
	return group.Wait()
}

// serve puts a proxy where the agent finds its servers. What crosses it goes to
// rec. It lasts until drain.
func (tr *trialRun) serve(ctx context.Context, rec mcpproxy.Recorder) error {
	proxy, err := mcpproxy.New(rec, mcpproxy.Limits{}, tr.servers...)
	if err != nil {
		return err
	}
	tr.proxy = proxy
	places, err := tr.sandbox.Listen(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		tr.serving.Go(func() {
			err := proxy.Serve(context.WithoutCancel(ctx), place, tr.only(place))
			if err != nil && !errors.Is(err, net.ErrClosed) {
				rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
			}
		})
	}
	return tr.tellPlaces(ctx, places)
}

// only is the one server that can be meant at a place, whatever Host a request
// names; empty where there are several.
func (tr *trialRun) only(place Place) string {
	if len(tr.servers) == 1 {
		return tr.servers[0].Name
	}
	return place.Server
}

// tellPlaces writes mcp.json again where servers are not found under their names.
func (tr *trialRun) tellPlaces(ctx context.Context, places []Place) error {
	hosts := make(map[string]string, len(tr.servers))
	for _, server := range tr.servers {
		hosts[server.Name] = server.Name
	}
	moved := false
	for _, place := range places {
		if place.Host != "" {
			hosts[place.Server], moved = place.Host, true
		}
	}
	if !moved {
		return nil
	}
	return tr.put(ctx, AgentBox, "/", []File{fileOf(MCPConfigPath, string(mcpconfig.Render(hosts)))})
}

// drain lets every server end and every answer be recorded.
func (tr *trialRun) drain(ctx context.Context) error {
	if tr.proxy == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := tr.proxy.Close(ctx)
	tr.serving.Wait()
	tr.proxy = nil
	return err
}
