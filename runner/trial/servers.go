package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// servers are those of a trial, with their services: programs, and what they write.
type servers struct {
	*recording
	hosts     []*host              // in the order of the plan; nil for one that did not come up
	proxied   []proxy.Server       // the same, as the proxy knows them
	retainers map[string]*retainer // of those whose processes graders ask, by name
	outputs   map[string]io.Writer // of servers and services
	logs      []io.Closer

	mu     sync.Mutex
	shared []*instance // those of them that the run owns; guarded by mu
}

func newServers(r *recording) *servers {
	return &servers{recording: r, outputs: map[string]io.Writer{}}
}

// open has every server of the trial answer, in the trial's sandbox or where
// the run has it.
func (s *servers) open(ctx context.Context, sb sandbox.Sandbox) error {
	if err := s.openLogs(); err != nil {
		return err
	}
	s.hosts = make([]*host, len(s.plan.Servers))
	group, gctx := errgroup.WithContext(ctx)
	for i, server := range s.plan.Servers {
		group.Go(func() (err error) {
			if server.Shared {
				s.hosts[i], err = s.joinShared(gctx, server)
				return err
			}
			if s.hosts[i], err = startHost(gctx, sb, server, s.plan.EgressLimits, s.observer(), s.output); err != nil {
				return err
			}
			return s.probe(gctx, s.hosts[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := s.comparePins(); err != nil {
		return err
	}
	for _, h := range s.hosts {
		server := h.server(s.output(h.plan.Name))
		server.Inject = injectionsFor(s.plan, server.Name)
		server.Share = s.shares.Servers[server.Name]
		s.proxied = append(s.proxied, server)
	}
	s.keepAsked()
	return nil
}

// probe has a server answer once, through MCP; one that speaks stdio in a process
// that is gone again before the agent starts.
func (s *servers) probe(ctx context.Context, h *host) error {
	server := h.server(s.output(h.plan.Name))
	_, err := client.Probe(ctx, s.rec, server.Server, server.Tools)
	if errors.Is(err, client.ErrNotStarted) || errors.Is(err, client.ErrExited) {
		return advised(h.sandbox, h.plan.Name, err)
	}
	if err == nil && h.plan.Pin != nil {
		h.unpinned = s.listTools(ctx, h)
	}
	return err
}

// stop ends the programs of the trial's own servers.
func (s *servers) stop(ctx context.Context) {
	var all sync.WaitGroup
	for _, h := range s.hosts {
		if h != nil && !h.plan.Shared {
			all.Go(func() { h.stop(ctx) })
		}
	}
	all.Wait()
}

// await waits for their ends, once their containers are gone.
func (s *servers) await(ctx context.Context) error {
	var errs []error
	for _, h := range s.hosts {
		if h == nil || h.plan.Shared {
			continue
		}
		errs = append(errs, h.await(ctx))
	}
	return errors.Join(errs...)
}

// advised is err with what a sandbox knows of the container that it comes from.
func advised(sb sandbox.Sandbox, container string, err error) error {
	hinter, ok := sb.(sandbox.Hinter)
	if !ok {
		return err
	}
	if hint := hinter.Hint(container); hint != "" {
		return fmt.Errorf("%w\nnote: %s", err, hint)
	}
	return err
}

// openLogs makes the files of what servers and their services write.
func (s *servers) openLogs() error {
	for _, server := range s.plan.Servers {
		share := s.shares.Servers[server.Name]
		if err := s.openLog(server.Name, server.Name, share, func() (io.WriteCloser, error) { return s.rec.ServerLog(server.Name) }); err != nil {
			return err
		}
		for _, service := range server.Services {
			for _, stream := range []string{"stdout", "stderr"} {
				err := s.openLog(serviceOutput(server.Name, service.Name, stream), sandbox.ServiceName(server.Name, service.Name), share, func() (io.WriteCloser, error) {
					return s.rec.ServiceLog(server.Name, service.Name, stream)
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
func (s *servers) openLog(name, container string, share *bounded.Budget, open func() (io.WriteCloser, error)) error {
	file, err := open()
	if err != nil {
		return err
	}
	s.logs = append(s.logs, file)
	kept := &bounded.Head{W: file, Limit: math.MaxInt64, Share: share, Full: func() {
		s.rec.Event(evidence.Event{Kind: "limit", Where: container, Message: fmt.Sprintf("its server's share of the evidence, %d bytes, is full: no more of its output is kept", share.Max())})
	}}
	s.outputs[name] = kept
	if s.o.ServerLog != nil {
		s.outputs[name] = io.MultiWriter(kept, s.o.ServerLog(s.plan, container))
	}
	return nil
}

// output is where an output of a server or of its services is kept.
func (s *servers) output(name string) io.Writer { return s.outputs[name] }

// keepAsked has the processes of servers kept that graders ask.
func (s *servers) keepAsked() {
	s.retainers = map[string]*retainer{}
	asked := s.asks(evidence.StepCall)
	for i, h := range s.hosts {
		for _, ask := range asked {
			name := ask.What.(evidence.CallAsk).Server
			if h.plan.Name == name && h.plan.Transport == mcpconfig.Stdio && s.retainers[name] == nil {
				s.proxied[i], s.retainers[name] = keeping(s.proxied[i])
			}
		}
	}
}

// closeKeepers ends what was kept of servers.
func (s *servers) closeKeepers() {
	var all sync.WaitGroup
	for _, k := range s.retainers {
		all.Go(k.close)
	}
	all.Wait()
}
