package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// servers are those of a trial, with their services: programs, and what they write.
type servers struct {
	*recording
	up      []*server            // those that came up, in the order of the plan
	outputs map[string]io.Writer // of servers and services
	logs    []io.Closer
}

// server is one of a trial's servers.
type server struct {
	*host
	shared   *instance    // where the run owns it; nil for the trial's own
	proxied  proxy.Server // as the agent's proxy knows it
	retained *retainer    // where graders ask its processes; else nil
}

// find returns a server that came up by its name; nil for none.
func (s *servers) find(name string) *server {
	i := slices.IndexFunc(s.up, func(up *server) bool { return up.plan.Name == name })
	if i < 0 {
		return nil
	}
	return s.up[i]
}

// unasked returns the servers for a checkpoint. Their containers can be looked into, but nothing
// is called: that would change what the agent finds next.
func (s *servers) unasked(at *recording) *servers {
	seen := &servers{recording: at}
	for _, up := range s.up {
		seen.up = append(seen.up, &server{host: up.host})
	}
	return seen
}

// open has every server of the trial answer, in the trial's sandbox or where
// the run has it.
func (s *servers) open(ctx context.Context, sb sandbox.Sandbox) error {
	if err := s.openLogs(); err != nil {
		return err
	}
	if err := s.start(ctx, sb); err != nil {
		return err
	}
	if err := s.comparePins(); err != nil {
		return err
	}
	asks := s.asks(evidence.StepCall)
	for _, up := range s.up {
		up.proxied = up.server(s.output(up.plan.Name))
		up.proxied.Inject = injectionsFor(s.plan, up.plan.Name)
		up.proxied.Share = s.shares.Servers[up.plan.Name]
		isAsked := slices.ContainsFunc(asks, func(ask grading.Ask) bool { return ask.What.(evidence.CallAsk).Server == up.plan.Name })
		if isAsked && up.plan.Transport == mcpconfig.Stdio {
			up.proxied, up.retained = retaining(up.proxied)
		}
	}
	return nil
}

// start starts every server and has it answer once.
func (s *servers) start(ctx context.Context, sb sandbox.Sandbox) error {
	s.up = make([]*server, len(s.plan.Servers))
	group, ctx := errgroup.WithContext(ctx)
	for i, planned := range s.plan.Servers {
		group.Go(func() error {
			if planned.Shared {
				shared, err := s.o.Shared.join(ctx, s, planned)
				if err == nil {
					s.up[i] = &server{host: shared.host, shared: shared}
				}
				return err
			}
			h, err := startHost(ctx, sb, planned, s.plan.EgressLimits, s.observer(), s.output)
			s.up[i] = &server{host: h}
			if err != nil {
				return err
			}
			return s.probe(ctx, h)
		})
	}
	err := group.Wait()
	s.up = slices.DeleteFunc(s.up, func(up *server) bool { return up == nil })
	return err
}

// probe has a server answer once, through MCP. The process of one that speaks stdio has ended
// when it returns.
func (s *servers) probe(ctx context.Context, h *host) error {
	server := h.server(s.output(h.plan.Name))
	_, err := client.Probe(ctx, s.rec, server.Server, server.Tools)
	if failed := (*client.Error)(nil); errors.As(err, &failed) && failed.Class != client.ErrTools {
		return hinted(h.sandbox, h.plan.Name, h.plan, err)
	}
	if err == nil && h.plan.Pin != nil {
		h.unpinned = s.listTools(ctx, h)
	}
	return err
}

// stop ends what is kept of servers for graders, and then the programs of the trial's own.
func (s *servers) stop(ctx context.Context) error {
	s.closeRetained()
	var all sync.WaitGroup
	for _, up := range s.up {
		if up.shared == nil {
			all.Go(func() { up.stop(ctx) })
		}
	}
	all.Wait()
	return nil
}

// await waits for their ends, once their containers are gone, and leaves those of the run.
func (s *servers) await(context.Context) error {
	var errs []error
	for _, up := range s.up {
		if up.shared == nil {
			errs = append(errs, up.await())
		}
	}
	for _, up := range s.up {
		if up.shared != nil {
			s.record.Shared = append(s.record.Shared, up.shared.leave(s))
		}
	}
	slices.SortFunc(s.record.Shared, func(a, b evidence.SharedServer) int { return strings.Compare(a.Name, b.Name) })
	for _, log := range s.logs {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

// closeRetained ends the processes that are kept for graders.
func (s *servers) closeRetained() {
	var all sync.WaitGroup
	for _, up := range s.up {
		if up.retained != nil {
			all.Go(up.retained.close)
		}
	}
	all.Wait()
}

// openLogs makes the files of what servers and their services write.
func (s *servers) openLogs() error {
	for _, server := range s.plan.Servers {
		share := s.shares.Servers[server.Name]
		if err := s.openLog(server.Name, server.Name, share, func() (io.WriteCloser, error) { return s.rec.ServerLog(server.Name) }); err != nil {
			return err
		}
		for _, service := range server.Services {
			container := sandbox.ServiceName(server.Name, service.Name)
			for _, stream := range []string{"stdout", "stderr"} {
				err := s.openLog(serviceOutput(container, stream), container, share, func() (io.WriteCloser, error) {
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

// output returns where an output of a server or of its services is kept.
func (s *servers) output(name string) io.Writer { return s.outputs[name] }
