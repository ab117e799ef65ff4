package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/gateway"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// openServers has every server of the trial answer, in the trial's sandbox or where
// the run has it.
func (tr *trialRun) openServers(ctx context.Context) error {
	if err := tr.openLogs(); err != nil {
		return err
	}
	tr.hosts = make([]*host, len(tr.plan.Servers))
	group, gctx := errgroup.WithContext(ctx)
	for i, s := range tr.plan.Servers {
		group.Go(func() (err error) {
			if s.Shared {
				tr.hosts[i], err = tr.joinShared(gctx, s)
				return err
			}
			if tr.hosts[i], err = startHost(gctx, tr.sandbox, s, tr.plan.EgressLimits, tr.observer(), tr.output); err != nil {
				return err
			}
			return tr.probe(gctx, tr.hosts[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := tr.comparePins(); err != nil {
		return err
	}
	for _, h := range tr.hosts {
		server := h.server(tr.output(h.plan.Name))
		server.Inject = injectionsFor(tr.plan, server.Name)
		server.Share = tr.shares.Servers[server.Name]
		tr.servers = append(tr.servers, server)
	}
	tr.keepAsked()
	return nil
}

// probe has a server answer once, through MCP; one that speaks stdio in a process
// that is gone again before the agent starts.
func (tr *trialRun) probe(ctx context.Context, h *host) error {
	_, err := proxy.Probe(ctx, tr.rec, proxy.Limits{}, h.server(tr.output(h.plan.Name)))
	if errors.Is(err, proxy.ErrNotStarted) || errors.Is(err, proxy.ErrExited) {
		return advised(h.sandbox, h.plan.Name, err)
	}
	if err == nil && h.plan.Pin != nil {
		h.unpinned = tr.survey(ctx, h)
	}
	return err
}

// stopServers ends the programs of the trial's own servers.
func (tr *trialRun) stopServers(ctx context.Context) {
	var all sync.WaitGroup
	for _, h := range tr.hosts {
		if h != nil && !h.plan.Shared {
			all.Go(func() { h.stop(ctx) })
		}
	}
	all.Wait()
}

// awaitServers waits for their ends, once their boxes are gone.
func (tr *trialRun) awaitServers(ctx context.Context) error {
	var errs []error
	for _, h := range tr.hosts {
		if h == nil || h.plan.Shared {
			continue
		}
		errs = append(errs, h.await(ctx))
	}
	return errors.Join(errs...)
}

// advised is err with what a sandbox knows of the box that it comes from.
func advised(sb sandbox.Sandbox, box string, err error) error {
	adviser, ok := sb.(sandbox.Adviser)
	if !ok {
		return err
	}
	if advice := adviser.Advice(box); advice != "" {
		return fmt.Errorf("%w\nnote: %s", err, advice)
	}
	return err
}

// openLogs makes the files of what servers and their services write.
func (tr *trialRun) openLogs() error {
	for _, server := range tr.plan.Servers {
		share := tr.shares.Servers[server.Name]
		if err := tr.openLog(server.Name, server.Name, share, func() (io.WriteCloser, error) { return tr.rec.ServerLog(server.Name) }); err != nil {
			return err
		}
		for _, service := range server.Services {
			for _, stream := range []string{"stdout", "stderr"} {
				err := tr.openLog(serviceOutput(server.Name, service.Name, stream), sandbox.ServiceName(server.Name, service.Name), share, func() (io.WriteCloser, error) {
					return tr.rec.ServiceLog(server.Name, service.Name, stream)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// openLog keeps an output within a share, and shows it where that was asked for.
func (tr *trialRun) openLog(name, box string, share *bounded.Budget, open func() (io.WriteCloser, error)) error {
	file, err := open()
	if err != nil {
		return err
	}
	tr.logs = append(tr.logs, file)
	kept := &bounded.Head{W: file, Limit: math.MaxInt64, Share: share, Full: func() {
		tr.rec.Event(evidence.Event{Kind: "limit", Where: box, Message: fmt.Sprintf("its server's share of the evidence, %d bytes, is full: no more of its output is kept", share.Max())})
	}}
	tr.outputs[name] = kept
	if tr.o.ServerLog != nil {
		tr.outputs[name] = io.MultiWriter(kept, tr.o.ServerLog(tr.plan, box))
	}
	return nil
}

// output is where an output of a server or of its services is kept.
func (tr *trialRun) output(name string) io.Writer { return tr.outputs[name] }

// recorder takes what the agent says to servers and models, and hears of them.
type recorder interface {
	proxy.Recorder
	gateway.Recorder
}

// serve puts a proxy where the agent finds its servers, and a gateway where it finds its
// models. What crosses them goes to rec. They last until drain.
func (tr *trialRun) serve(ctx context.Context, rec recorder, models *plan.Models) (err error) {
	if tr.models, err = openGateway(models, rec); err != nil {
		return err
	}
	proxy, err := proxy.New(rec, proxy.Limits{Calls: tr.plan.Agent.MaxCalls, Share: tr.shares.Agent}, tr.servers...)
	if err != nil {
		return err
	}
	tr.proxy = proxy
	places, err := tr.sandbox.Listen(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		handler := tr.at(place)
		tr.serving.Go(func() {
			err := proxy.Serve(context.WithoutCancel(ctx), place, handler)
			if err != nil && !errors.Is(err, net.ErrClosed) {
				rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
			}
		})
	}
	return tr.tellPlaces(ctx, places)
}

// only is the one server that can be meant at a place, whatever Host a request
// names; empty where there are several.
func (tr *trialRun) only(place sandbox.Endpoint) string {
	if len(tr.servers) == 1 {
		return tr.servers[0].Name
	}
	return place.Server
}

// tellPlaces keeps where the agent finds servers, and writes mcp.json again where that
// is not under their names.
func (tr *trialRun) tellPlaces(ctx context.Context, places []sandbox.Endpoint) error {
	hosts := make(map[string]string, len(tr.servers))
	for _, server := range tr.servers {
		hosts[server.Name] = server.Host
	}
	moved := false
	for _, place := range places {
		if place.Host != "" && place.Server != sandbox.ModelHost {
			hosts[place.Server], moved = place.Host, true
		}
	}
	tr.found = hosts
	if !moved {
		return nil
	}
	return tr.put(ctx, sandbox.Agent, "/", []plan.File{plan.NewFile(sandbox.MCPConfigPath, string(mcpconfig.Render(hosts)))})
}

// drain lets every server end and every answer be recorded.
func (tr *trialRun) drain(ctx context.Context) error {
	tr.closeAgentOutlet()
	tr.closeModels()
	defer func() { tr.models = nil }()
	if tr.proxy == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := tr.proxy.Close(ctx)
	tr.serving.Wait()
	if why := tr.overspent(); why != "" && tr.record.Class == "" && tr.record.Ended.IsZero() { // with its last breath
		tr.blame(evidence.ClassAgentError, evidence.ReasonBudget, why)
	}
	tr.proxy = nil
	return err
}
