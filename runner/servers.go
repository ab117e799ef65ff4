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

// makeServers says how each server of the trial is started.
func (tr *trialRun) makeServers() error {
	for _, s := range tr.plan.Servers {
		log, err := tr.serverLog(s.Name)
		if err != nil {
			return err
		}
		spec := serverProcess(s.expanded, tr.sandbox.Layout(s.Name).Home)
		tr.servers = append(tr.servers, mcpproxy.Server{
			Name: s.Name, Start: s.StartupTimeout, Timeout: s.Timeout, Stderr: log,
			Launch: func(ctx context.Context) (process.Process, error) {
				return tr.sandbox.Start(ctx, s.Name, spec)
			},
		})
	}
	return nil
}

// serverProcess is a server's program; without a command it is its image's own,
// with the server's arguments.
func serverProcess(config mcpconfig.Server, home string) process.Spec {
	spec := process.Spec{Dir: cmp.Or(config.Cwd, config.WorkingDir)}
	if home != "" {
		spec.Env = []string{"HOME=" + home}
	}
	if config.Command != "" {
		spec.Args = append([]string{config.Command}, config.Args...)
	} else {
		spec.Args, spec.OfImage = config.Args, true
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
			if errors.Is(err, mcpproxy.ErrNotStarted) || errors.Is(err, mcpproxy.ErrExited) {
				return tr.advised(server.Name, err)
			}
			return err
		})
	}
	return group.Wait()
}

// advised is err with what its sandbox knows of the box that it comes from.
func (tr *trialRun) advised(box string, err error) error {
	adviser, ok := tr.sandbox.(Adviser)
	if !ok {
		return err
	}
	if advice := adviser.Advice(box); advice != "" {
		return fmt.Errorf("%w\nnote: %s", err, advice)
	}
	return err
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
