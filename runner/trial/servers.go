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

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// servers are those of a trial that came up, in the order of the plan.
type servers struct {
	*serverLogs
	up []*server
}

// server is one of a trial's servers.
type server struct {
	*host
	shared   *instance    // where the run owns it; nil for the trial's own
	proxied  proxy.Server // as the agent's proxy knows it
	retained *retainer    // where graders ask its processes; else nil
}

// startServers has every server of the trial answer, in the trial's sandbox or where the run has
// it. Those that came up are returned also if others did not.
func startServers(ctx context.Context, r *recording, sb sandbox.Sandbox, down *teardown) (*servers, error) {
	s := &servers{}
	var err error
	if s.serverLogs, err = openLogs(r, down); err != nil {
		return s, err
	}
	down.add(part{stop: s.stop, await: s.await})
	s.up = make([]*server, len(r.plan.Servers))
	group, ctx := errgroup.WithContext(ctx)
	for i, planned := range r.plan.Servers {
		group.Go(func() (err error) {
			s.up[i], err = s.start(ctx, sb, planned)
			return err
		})
	}
	err = group.Wait()
	s.up = slices.DeleteFunc(s.up, func(up *server) bool { return up == nil })
	if err != nil {
		return s, err
	}
	return s, s.comparePins()
}

// find returns a server that came up by its name; nil for none.
func (s *servers) find(name string) *server {
	i := slices.IndexFunc(s.up, func(up *server) bool { return up.plan.Name == name })
	if i < 0 {
		return nil
	}
	return s.up[i]
}

// early returns the names of the servers that do not answer server/discover.
func (s *servers) early() (names []string) {
	for _, up := range s.up {
		if up.early {
			names = append(names, up.plan.Name)
		}
	}
	return names
}

// unasked returns the servers for a checkpoint. Their containers can be looked into, but nothing
// is called: that would change what the agent finds next.
func (s *servers) unasked(at *recording) *servers {
	seen := &servers{serverLogs: &serverLogs{recording: at}}
	for _, up := range s.up {
		seen.up = append(seen.up, &server{host: up.host})
	}
	return seen
}

// start starts a server and has it answer once. The server is nil if it has nothing to stop.
func (l *serverLogs) start(ctx context.Context, sb sandbox.Sandbox, planned plan.Server) (*server, error) {
	if planned.Shared {
		shared, err := l.o.Shared.join(ctx, l, planned)
		if err != nil {
			return nil, err
		}
		return l.newServer(shared.host, shared), nil
	}
	h, err := startHost(ctx, sb, planned, l.plan.EgressLimits, l.observer(), l.output)
	if err == nil {
		err = l.probe(ctx, h)
	}
	if err != nil {
		return &server{host: h}, err
	}
	return l.newServer(h, nil), nil
}

// newServer returns a server that has answered, as the agent's proxy gets it.
func (l *serverLogs) newServer(h *host, shared *instance) *server {
	s, name := &server{host: h, shared: shared, proxied: h.server(l.output(h.plan.Name))}, h.plan.Name
	s.proxied.Inject = injectionsFor(l.plan, name)
	s.proxied.Share = l.shares.Servers[name]
	isAsked := slices.ContainsFunc(l.asks(evidence.StepCall), func(ask grading.Ask) bool { return ask.What.(evidence.CallAsk).Server == name })
	if isAsked && h.plan.Transport == mcpconfig.Stdio {
		s.proxied, s.retained = retaining(s.proxied)
	}
	return s
}

// probe has a server answer once, through MCP. The process of one that speaks stdio has ended
// when it returns.
func (l *serverLogs) probe(ctx context.Context, h *host) error {
	server := h.server(l.output(h.plan.Name))
	info, err := client.Probe(ctx, l.rec, server.Server, server.Tools, agents.IsOurs(l.plan.Agent.Executor))
	h.early = info.NoDiscover
	if failed := (*client.Error)(nil); errors.As(err, &failed) && failed.Class != client.ErrTools {
		return hinted(h.sandbox, h.plan.Name, h.plan, err)
	}
	if err == nil && h.plan.Pin != nil {
		h.unpinned = l.listTools(ctx, h)
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
			s.record.Shared = append(s.record.Shared, up.shared.leave(s.serverLogs))
		}
	}
	slices.SortFunc(s.record.Shared, func(a, b evidence.SharedServer) int { return strings.Compare(a.Name, b.Name) })
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

// serverLogs keep what servers and their services write.
type serverLogs struct {
	*recording
	outputs map[string]io.Writer // by server, or as serviceOutput names them
	files   []io.Closer
}

// openLogs makes the files of what servers and their services write.
func openLogs(r *recording, down *teardown) (*serverLogs, error) {
	l := &serverLogs{recording: r, outputs: map[string]io.Writer{}}
	down.add(part{await: l.close})
	for _, server := range r.plan.Servers {
		share := r.shares.Servers[server.Name]
		if err := l.open(server.Name, server.Name, share, func() (io.WriteCloser, error) { return r.rec.ServerLog(server.Name) }); err != nil {
			return l, err
		}
		for _, service := range server.Services {
			container := sandbox.ServiceName(server.Name, service.Name)
			for _, stream := range []string{"stdout", "stderr"} {
				err := l.open(serviceOutput(container, stream), container, share, func() (io.WriteCloser, error) {
					return r.rec.ServiceLog(server.Name, service.Name, stream)
				})
				if err != nil {
					return l, err
				}
			}
		}
	}
	return l, nil
}

// open keeps an output within a share, and shows it where that was asked for.
func (l *serverLogs) open(name, container string, share *bounded.Budget, open func() (io.WriteCloser, error)) error {
	file, err := open()
	if err != nil {
		return err
	}
	l.files = append(l.files, file)
	kept := &bounded.Head{W: file, Limit: math.MaxInt64, Share: share, Full: func() {
		l.rec.Event(evidence.Event{Kind: "limit", Where: container, Message: fmt.Sprintf("its server's share of the evidence, %d bytes, is full: no more of its output is kept", share.Max())})
	}}
	l.outputs[name] = kept
	if l.o.ServerLog != nil {
		l.outputs[name] = io.MultiWriter(kept, l.o.ServerLog(l.plan, container))
	}
	return nil
}

// output returns where an output of a server or of its services is kept.
func (l *serverLogs) output(name string) io.Writer { return l.outputs[name] }

// close closes the files, once the servers have ended.
func (l *serverLogs) close(context.Context) error {
	var errs []error
	for _, file := range l.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
