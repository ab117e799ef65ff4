package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner/plan"
)

// InspectOptions is how servers are inspected. Watch is how long one is left alone once
// it has listed what it has, and Patience how long one list, or one exercise, may take;
// both are above 0.
type InspectOptions struct {
	Watch     time.Duration
	Patience  time.Duration
	Exercises []inspection.Exercise
	Secrets   *redact.Set
	Weak      []string // as [Options] has it
}

// Inspect starts the one server of a plan of [plan.PlanInspections], asks who it is and for all
// that it lists, and does nothing else with it but the exercises. What happens is evidence
// in dir, which is laid out as a trial's. The error is ours, or ctx's; what is wrong with
// the server is in the result.
func Inspect(ctx context.Context, backend Backend, t *plan.Trial, dir evidence.Dir, o InspectOptions) (inspection.Server, error) {
	if o.Watch <= 0 || o.Patience <= 0 || o.Secrets == nil {
		return inspection.Server{}, errors.New("runner: incomplete options")
	}
	if err := t.CheckInspected(); err != nil {
		return inspection.Server{}, err
	}
	rec, err := evidence.Create(string(dir), o.Secrets, nil)
	if err != nil {
		return inspection.Server{}, err
	}
	r := newRecording(t, rec, Options{Backend: backend, Secrets: o.Secrets, Weak: o.Weak})
	s, up := t.Servers[0], &running{}
	l := &inspected{InspectOptions: o, found: inspection.Server{
		Name: s.Name, Config: s.Config, Transport: s.Transport, Remote: s.Remote,
		Offer: catalog.Catalog{Lists: []catalog.List{}},
	}}
	err = errors.Join(l.inspect(ctx, r, up), up.takeDown(ctx), rec.Close())
	r.record.Ended = rec.Now()
	if err != nil {
		r.blame(evidence.ClassInfra, evidence.ReasonRunner, onceEach(err))
	}
	err = errors.Join(err, dir.Sync(newAbove))
	_, failed := r.writeRecord(dir)
	return l.found, errors.Join(err, failed)
}

// inspected looks at one server.
type inspected struct {
	InspectOptions
	found inspection.Server
}

func (l *inspected) clean() cleaner { return cleaner{l.Secrets} }

// inspect is the life of a server that is looked at.
func (l *inspected) inspect(ctx context.Context, r *recording, up *running) (err error) {
	stands := &stage{recording: r, servers: newServers(r)}
	if stands.sandbox, err = r.o.Backend.Open(ctx, r.plan, r.rec.Event); err != nil {
		return err
	}
	up.stage = stands
	stands.keepGuarantees()
	if err := stands.servers.openLogs(); err != nil {
		return err
	}
	s := r.plan.Servers[0]
	h, err := startHost(ctx, stands.sandbox, s, r.plan.EgressLimits, r.observer(), stands.servers.output)
	stands.servers.hosts = []*host{h}
	if err == nil {
		var q *client.Session
		if q, err = client.Inspect(ctx, r.rec, h.server(stands.servers.output(s.Name)).Server); err == nil {
			defer q.Close()
			l.look(ctx, q)
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.found.Failed = l.clean().error(advised(stands.sandbox, s.Name, err))
	return nil
}

// look asks a server for what it has, at the begin and at the end.
func (l *inspected) look(ctx context.Context, q *client.Session) {
	o := l.clean().offer(q.Offer())
	for _, kind := range catalog.Kinds() {
		o.Lists = append(o.Lists, l.list(ctx, q, kind))
	}
	l.found.Offer = o
	for _, e := range l.Exercises {
		l.found.Answers = append(l.found.Answers, l.exercise(ctx, q, e))
	}
	watched, cancel := context.WithTimeout(ctx, l.Watch)
	defer cancel()
	if err := q.Listen(watched); err != nil {
		l.found.Ended = l.clean().error(err)
		return
	}
	l.found.Drift = catalog.Changes(o, l.again(ctx, q, o))
}

// again is an offer with those lists as they are now that were whole.
func (l *inspected) again(ctx context.Context, q *client.Session, o catalog.Catalog) catalog.Catalog {
	o.Lists = slices.Clone(o.Lists)
	for i, list := range o.Lists {
		if list.Partial == "" {
			o.Lists[i] = l.list(ctx, q, list.Kind)
		}
	}
	return o
}

// list is a list of the server's, without secrets.
func (l *inspected) list(ctx context.Context, q *client.Session, kind catalog.Kind) catalog.List {
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	return l.clean().list(q.List(ctx, kind))
}

func (l *inspected) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.Patience, fmt.Errorf("%v have passed", l.Patience))
}

// maxDepth is how deep an answer is nested at the most that a report has.
const maxDepth = 100

func (l *inspected) exercise(ctx context.Context, q *client.Session, e inspection.Exercise) inspection.Answered {
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	var reply client.Reply
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
	switch {
	case err != nil && ctx.Err() != nil:
		a.Outcome, a.Message = evidence.OutcomeTimeout, context.Cause(ctx).Error()
	case err != nil:
		a.Outcome, a.Message = evidence.OutcomeTransportError, l.clean().error(err)
	case len(reply.Error) > 0:
		a.Outcome, a.Answer = evidence.OutcomeProtocolError, reply.Error
	case isToolError(reply.Result):
		a.Outcome = evidence.OutcomeToolError
	default:
		a.Outcome = evidence.OutcomeOK
	}
	a.Marks = finding.InResult(e.What, e.Name, a.Answer)
	if len(a.Answer) > maxReply || jsontext.Depth(a.Answer) > maxDepth {
		a.Message, a.Answer = fmt.Sprintf("its %d bytes are in frames.jsonl", len(a.Answer)), nil
	}
	return a
}
