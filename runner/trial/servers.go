package trial

import (
	"context"
	"encoding/json"
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
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// servers are the trial's servers that have started, in the order of the plan.
type servers struct {
	starter *serverStarter
	up      []*server
}

// server is one of a trial's servers.
type server struct {
	*runningServer
	shared  *instance    // if the run shares it; else nil
	proxied proxy.Server // as the agent's proxy uses it
}

// startServers starts all servers of the trial, or joins those that the run shares, and waits until
// they answer. On error it also returns the servers that have started.
func startServers(ctx context.Context, t *plan.Trial, o Options, log observer, sb sandbox.Sandbox, down *teardown) (*servers, error) {
	s := &servers{}
	var err error
	if s.starter, err = newServerStarter(t, o, log, down); err != nil {
		return s, err
	}
	down.add(part{stop: s.stop, await: func(ctx context.Context) error {
		err := s.await(ctx)
		down.found.shared = s.leaveShared()
		return err
	}})
	s.up = make([]*server, len(t.Servers))
	group, ctx := errgroup.WithContext(ctx)
	for i, planned := range t.Servers {
		group.Go(func() (err error) {
			s.up[i], err = s.starter.start(ctx, sb, planned)
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

// find returns a server by name, or nil.
func (s *servers) find(name string) *server {
	i := slices.IndexFunc(s.up, func(up *server) bool { return up.plan.Name == name })
	if i < 0 {
		return nil
	}
	return s.up[i]
}

// noDiscover returns the names of the servers that do not support server/discover.
func (s *servers) noDiscover() (names []string) {
	for _, up := range s.up {
		if up.noDiscover {
			names = append(names, up.plan.Name)
		}
	}
	return names
}

// forCheckpoint returns the servers for a checkpoint. Graders can read files in their containers but
// not call them, since calls would change their state for the agent.
func (s *servers) forCheckpoint(log observer) *servers {
	seen := &servers{starter: &serverStarter{log: log}}
	for _, up := range s.up {
		seen.up = append(seen.up, &server{runningServer: up.runningServer})
	}
	return seen
}

// forHooks returns the servers for hooks before the agent. They have no injections, which are for
// the agent, and are not kept for graders, which call the processes of the agent's sessions.
func (s *servers) forHooks(log observer) *servers {
	seen := &servers{starter: &serverStarter{log: log}}
	for _, up := range s.up {
		seen.up = append(seen.up, &server{runningServer: up.runningServer, proxied: s.starter.proxied(evidence.SenderHook, up.runningServer)})
	}
	return seen
}

// proxied returns a started server as a proxy that serves by uses it.
func (l *serverStarter) proxied(by evidence.Sender, h *runningServer) proxy.Server {
	return h.server(by, l.output(h.plan.Name))
}

// play makes the mock or the cassette answer for a started server from now on, in all conversations
// of the trial.
func (l *serverStarter) play(ctx context.Context, h *runningServer) {
	s := h.plan
	player := s.Mock.Play(l.plan.Number, func(why error) {
		if s.Mock.IsPlayed() {
			l.log.missed(s.Name, why)
			return
		}
		l.log.Event(evidence.Event{Kind: "mock", Where: s.Name, Message: why.Error()})
	})
	if s.Live {
		h.live = &liveServer{server: h, log: l.log, proxy: proxy.New(probing{l.log}, proxy.Limits{}, l.proxied(evidence.SenderRunner, h))}
		player.Live = func(method string, params json.RawMessage) (result, failure json.RawMessage) {
			return h.live.ask(ctx, method, params)
		}
	}
	h.played = player
}

// start starts a server and waits for its answer. The returned server is nil if there is nothing to
// stop.
func (l *serverStarter) start(ctx context.Context, sb sandbox.Sandbox, planned plan.Server) (*server, error) {
	if planned.Shared {
		shared, err := l.shared.join(ctx, l, planned)
		if err != nil {
			return nil, err
		}
		return l.newServer(shared.host, shared), nil
	}
	h, err := startServer(ctx, sb, planned, l.plan.EgressLimits, l.log, l.output, l.say)
	if planned.Mock != nil {
		l.play(ctx, h)
	}
	if err == nil {
		err = l.probe(ctx, h)
	}
	if err != nil {
		return &server{runningServer: h}, err
	}
	return l.newServer(h, nil), nil
}

// newServer returns a started server with its configuration for the agent's proxy.
func (l *serverStarter) newServer(h *runningServer, shared *instance) *server {
	s, name := &server{runningServer: h, shared: shared, proxied: l.proxied(evidence.SenderAgent, h)}, h.plan.Name
	s.proxied.Inject, s.proxied.Fault = injectionsFor(l.plan, name), faultsFor(l.plan, name)
	isAsked := slices.ContainsFunc(asksOf(l.plan, evidence.StepCall), func(ask grading.Ask) bool { return ask.What.(evidence.CallAsk).Server == name })
	s.proxied.Keep = isAsked && h.plan.Transport == mcpconfig.Stdio && h.played == nil
	return s
}

// probe waits until a server answers through MCP. The process of a stdio server has ended when
// probe returns.
func (l *serverStarter) probe(ctx context.Context, h *runningServer) (err error) {
	server := l.proxied(evidence.SenderRunner, h)
	p := proxy.New(probing{l.log}, proxy.Limits{}, server)
	defer func() { err = errors.Join(err, closeProxy(ctx, p)) }()
	_, noDiscover, err := client.Probe(ctx, l.log.Recorder, p.Own(h.plan.Name), server.Tools, agents.IsOurs(l.plan.Agent.Executor))
	h.noDiscover = noDiscover
	if failed := (*client.Error)(nil); errors.As(err, &failed) && failed.Class != client.ErrTools {
		return withHint(h.sandbox, h.plan.Name, h.plan, err)
	}
	if err == nil && h.plan.Pin != nil {
		h.unpinned = l.listTools(ctx, h.plan, p)
	}
	return err
}

// probing records the probe's connections, which have a proxy of their own, under separate names.
type probing struct{ observer }

// Frame implements proxy.Recorder.
func (p probing) Frame(f evidence.Frame) int64 {
	f.Conn = "probe/" + strings.TrimPrefix(f.Conn, string(evidence.SenderRunner)+"/")
	return p.observer.Frame(f)
}

// closeProxy closes a proxy, with its own timeout.
func closeProxy(ctx context.Context, p *proxy.Proxy) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return p.Close(ctx)
}

// stop stops the programs of servers that are not shared.
func (s *servers) stop(ctx context.Context) error {
	var all sync.WaitGroup
	for _, up := range s.up {
		if up.shared == nil {
			all.Go(func() { up.stop(ctx) })
		}
	}
	all.Wait()
	return nil
}

// await waits for servers that are not shared to end with their containers.
func (s *servers) await(context.Context) error {
	var errs []error
	for _, up := range s.up {
		if up.shared == nil {
			errs = append(errs, up.await())
		}
	}
	return errors.Join(errs...)
}

// leaveShared leaves the servers that the run shares, and returns them ordered by name.
func (s *servers) leaveShared() (left []evidence.SharedServer) {
	for _, up := range s.up {
		if up.shared != nil {
			left = append(left, up.shared.leave(s.starter))
		}
	}
	slices.SortFunc(left, func(a, b evidence.SharedServer) int { return strings.Compare(a.Name, b.Name) })
	return left
}

// serverStarter starts the servers of a trial and records their outputs.
type serverStarter struct {
	log       observer
	plan      *plan.Trial
	shared    *SharedServers
	serverLog func(t *plan.Trial, server string) io.Writer // may be nil
	secrets   *secret.Set
	say       func(string)
	outputs   map[string]io.Writer // by server name, or by serviceOutput
	files     []io.Closer
}

// maxSaid is the maximum width of a message to a waiting user, in columns.
const maxSaid = 600

// newServerStarter returns a serverStarter with files for the outputs of servers and their services.
func newServerStarter(t *plan.Trial, o Options, log observer, down *teardown) (*serverStarter, error) {
	l := &serverStarter{log: log, plan: t, shared: o.Shared, serverLog: o.ServerLog, secrets: o.Secrets, outputs: map[string]io.Writer{}, say: func(what string) {
		if o.Say != nil {
			clean, _ := o.Secrets.Cut([]byte(what), false)
			o.Say(text.Line(string(clean), maxSaid))
		}
	}}
	down.add(part{await: l.close})
	for _, server := range t.Servers {
		err := l.openOutput(server.Name, server.Name, "stderr", func(kept *bounded.Head) (io.WriteCloser, error) { return log.ServerLog(server.Name, kept) })
		if err != nil {
			return l, err
		}
		for _, service := range server.Services {
			container := sandbox.ServiceName(server.Name, service.Name)
			for _, stream := range []string{"stdout", "stderr"} {
				err := l.openOutput(serviceOutput(container, stream), container, stream, func(kept *bounded.Head) (io.WriteCloser, error) {
					return log.ServiceLog(server.Name, service.Name, stream, kept)
				})
				if err != nil {
					return l, err
				}
			}
		}
	}
	return l, nil
}

// maxServerOutput is how many bytes of each output of a server or service are kept.
const maxServerOutput = 16 << 20

// openOutput opens an output, which several processes may write. It is copied to [Options].ServerLog if that is set.
// Once its file is full, nothing more is written.
func (l *serverStarter) openOutput(name, container, stream string, open func(*bounded.Head) (io.WriteCloser, error)) error {
	kept := &bounded.Head{Limit: maxServerOutput, Fail: errTooLarge, Full: func() {
		message := fmt.Sprintf("only the first %d bytes of %s are kept", maxServerOutput, stream)
		l.log.Event(evidence.Event{Kind: "limit", Where: container, Message: message})
	}}
	if !defence.BoundedStderr {
		kept.Limit = 1 << 30
	}
	file, err := open(kept)
	if err != nil {
		return err
	}
	l.files = append(l.files, file)
	var out io.Writer = file
	if l.serverLog != nil {
		out = io.MultiWriter(file, l.serverLog(l.plan, container))
	}
	l.outputs[name] = &bounded.Head{W: out, Limit: math.MaxInt64} // one writer at a time
	return nil
}

// output returns the writer for an output of a server or service.
func (l *serverStarter) output(name string) io.Writer { return l.outputs[name] }

// close closes the files. It is called after the servers have ended.
func (l *serverStarter) close(context.Context) error {
	var errs []error
	for _, file := range l.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
