package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// InspectOptions controls how servers are inspected. Watch is how long a server is observed
// after it has listed its catalog. Patience is the timeout of one list or one exercise. Both
// must be positive.
type InspectOptions struct {
	Watch     time.Duration
	Patience  time.Duration
	Exercises []inspection.Exercise
	// Try returns the next exercises, given what the server lists and has answered; none at the end.
	// May be nil.
	Try     func(listed catalog.Catalog, answered []inspection.Answered) []inspection.Exercise
	Secrets *secret.Set
	Weak    []string     // see [Options]
	Say     func(string) // likewise
}

// Inspect starts the server of a plan of [plan.PlanInspections], reads its catalog and makes
// the requests in Exercises, nothing else. Evidence is written to dir in the layout of a trial,
// and record is the content of its trial.json. The error is ours, or that of ctx; errors of the
// server are in found.
func Inspect(ctx context.Context, backend sandbox.Opener, t *plan.Trial, dir evidence.Dir, o InspectOptions) (found inspection.Server, record evidence.Trial, err error) {
	rec, err := evidence.Create(string(dir), o.Secrets, nil)
	if err != nil {
		return found, record, err
	}
	options := Options{Secrets: o.Secrets, Backend: backend, Weak: o.Weak, Say: o.Say}
	log, err := newObserver(t, rec, options)
	if err != nil {
		return found, record, errors.Join(err, rec.Close())
	}
	s := t.Servers[0]
	l := &serverInspection{InspectOptions: o, found: inspection.Server{
		Name: s.Name, Config: s.Config, Transport: s.Transport, Remote: s.Remote,
		Catalog: catalog.Catalog{Lists: []catalog.List{}},
	}}
	all := everything{plan: t, o: options, began: rec.Now()}
	var down teardown
	err = errors.Join(l.inspect(ctx, &all, log, &down), down.run(ctx), rec.Close())
	all.ended, all.down = rec.Now(), down.found
	all.failed = failure{all.ended, err}
	err = errors.Join(err, dir.Sync())
	all.missing = rec.Lost()
	record, failed := writeRecord(dir, all.redacted(conclude(all), rec), rec)
	return l.found, record, errors.Join(err, failed)
}

// serverInspection inspects one server.
type serverInspection struct {
	InspectOptions
	found inspection.Server
}

func (l *serverInspection) clean() cleaner { return cleaner{l.Secrets} }

// inspect starts the server, inspects it and stops it.
func (l *serverInspection) inspect(ctx context.Context, all *everything, log observer, down *teardown) error {
	t := all.plan
	planned := t.Servers[0]
	logs, err := newServerStarter(t, all.o, log, down)
	if err != nil {
		return err
	}
	first, err := startInspected(ctx, all, 1, log, logs, down)
	if first == nil {
		return err
	}
	all.opened = new(first.sandbox.Guarantees())
	defer func() { all.resources = measure(ctx, first.containers(), nil, log.Recorder) }()
	if err == nil {
		var q *client.Session
		if q, err = first.open(ctx); err == nil {
			defer q.Close()
			var other teardown // of the last container besides the first
			down.add(part{stop: other.run})
			started := 1
			l.readCatalog(ctx, q, func() (*client.Session, error) {
				if err := other.run(ctx); err != nil {
					return nil, err
				}
				started++
				next, err := startInspected(ctx, all, started, log, logs, &other)
				if err != nil {
					return nil, err
				}
				return next.open(ctx)
			})
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.found.Failed = l.clean().error(withHint(first.sandbox, planned.Name, planned, err))
	return nil
}

// inspected is a server in a sandbox of its own.
type inspected struct {
	*stage
	proxy *proxy.Proxy
}

// startInspected opens a sandbox and starts the server of an inspection in it. If the server does not start, it returns
// the sandbox with the error. The attempt, which starts at 1, names the sandbox; down stops everything.
func startInspected(ctx context.Context, all *everything, attempt int, log observer, logs *serverStarter, down *teardown) (*inspected, error) {
	t := all.plan
	planned := t.Servers[0]
	spec := t.ServerSpec(planned, t.Task, t.Number, sandbox.LifeOfTrial)
	spec.Attempt = attempt
	sb, err := openSandbox(ctx, all.o.Backend, spec, log, down)
	if err != nil {
		return nil, err
	}
	h, err := startServer(ctx, sb, planned, t.EgressLimits, log, logs.output, logs.say)
	i := &inspected{stage: &stage{plan: t, spec: spec, sandbox: sb, servers: &servers{starter: logs, up: []*server{{runningServer: h}}}}}
	down.add(part{stop: i.servers.stop, await: i.servers.await})
	if err == nil {
		i.proxy = proxy.New(log.Recorder, proxy.Limits{}, h.server(evidence.SenderRunner, logs.output(planned.Name)))
		down.add(part{stop: func(ctx context.Context) error {
			_ = closeProxy(ctx, i.proxy) // sessions that a server keeps open end with its sandbox
			return nil
		}})
	}
	return i, err
}

// open opens a session with the server.
func (i *inspected) open(ctx context.Context) (*client.Session, error) {
	return client.Inspect(ctx, i.proxy.Own(i.plan.Servers[0].Name))
}

// readCatalog reads the server's catalog, makes the exercises, and reads the catalog again. anew starts
// the server in another container, in place of the last that it started, and opens a session with it.
func (l *serverInspection) readCatalog(ctx context.Context, q *client.Session, anew func() (*client.Session, error)) {
	o := l.clean().ask(ctx, q, l.Patience)
	l.found.Catalog = o
	next := l.Exercises
	in := q
	defer func() {
		if in != q {
			in.Close()
		}
	}()
	for {
		for _, e := range next {
			if e.Anew {
				if in != q {
					in.Close()
				}
				in = q
				if other, err := anew(); err == nil { // on error, the first session is used
					in = other
				}
			}
			l.found.Answers = append(l.found.Answers, l.exercise(ctx, in, e))
		}
		if l.Try == nil || ctx.Err() != nil {
			break
		}
		if next = l.Try(o, l.found.Answers[len(l.Exercises):]); len(next) == 0 {
			break
		}
	}
	watch := l.Watch
	if slices.ContainsFunc(o.Lists, func(list catalog.List) bool { return list.Partial != "" }) {
		watch = max(watch, time.Second) // an exit is noticed within that time
	}
	watched, cancel := context.WithTimeout(ctx, watch)
	defer cancel()
	if err := q.Listen(watched); err != nil {
		l.found.Ended = l.clean().error(err)
		return
	}
	l.found.Drift = catalog.Changes(o, l.reread(ctx, q, o))
}

// reread returns o with its complete lists read again.
func (l *serverInspection) reread(ctx context.Context, q *client.Session, o catalog.Catalog) catalog.Catalog {
	o.Lists = slices.Clone(o.Lists)
	for i, list := range o.Lists {
		if list.Partial == "" {
			o.Lists[i] = l.clean().list(ctx, q, list.Kind, l.Patience)
		}
	}
	return o
}

// maxDepth is the maximum nesting of an answer in a report.
const maxDepth = 100

func (l *serverInspection) exercise(ctx context.Context, q *client.Session, e inspection.Exercise) inspection.Answered {
	ctx, cancel := withPatience(ctx, l.Patience)
	defer cancel()
	var reply jsonrpc.Message
	var err error
	switch e.What {
	case inspection.Read:
		reply, err = q.Read(ctx, e.Name)
	case inspection.Get:
		reply, err = q.Get(ctx, e.Name, e.Arguments)
	default:
		reply, err = q.Call(ctx, e.Name, e.Arguments)
	}
	reply.Result, reply.Error = l.clean().json(reply.Result), l.clean().json(reply.Error)
	a := inspection.Answered{Exercise: e, Answer: reply.Result}
	if len(reply.Error) > 0 {
		a.Answer = reply.Error
	}
	a.Outcome, a.Message = outcomeOf(ctx, q, reply, err)
	a.Message = l.clean().text(a.Message)
	if len(a.Answer) > 0 { // empty if the server did not answer
		a.Findings = finding.InResult(e.What, e.Name, a.Answer)
	}
	if len(a.Answer) > maxAnswer || jsontext.Depth(a.Answer) > maxDepth {
		a.Message, a.Answer = fmt.Sprintf("its %d bytes are in %s", len(a.Answer), evidence.FramesOf(l.found.Name)), nil
	}
	return a
}
