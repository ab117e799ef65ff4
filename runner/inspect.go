package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/hint"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// Inspection is a request to inspect MCP servers, each alone in its own sandbox.
type Inspection struct {
	ID        string
	Eval      *eval.Eval // contains the servers
	Servers   []string   // names of the servers to inspect, sorted
	Source    string     // where they are configured, for people
	Dir       string     // directory for evidence, new or empty
	Isolated  bool       // run servers in containers; if not, all must be remote
	Pull      string     // when to pull images; empty for the eval's setting
	Pin       bool       // pin the servers' catalogs in the lock file
	Watch     time.Duration
	Patience  time.Duration
	Exercises []inspection.Exercise
	// Try returns the next exercises, given what a server lists and has answered; none at the end. May
	// be nil.
	Try       func(server string, listed catalog.Catalog, answered []inspection.Answered) []inspection.Exercise
	AllowWeak []string // attacks that may get out of the sandbox
	// Resolved receives the lock with packages that it lacked, if there are any; may be nil.
	Resolved func(*images.Lock)

	Host Host
}

// inspector is an inspection in progress.
type inspector struct {
	Inspection
	lock   *images.Lock // content of the lock file
	filled *images.Lock // lock with packages that it lacked
	plans  []*plan.Trial
	report inspection.Report
	absent map[string]error // why a server's packages or images are not available, by server
}

// Inspect starts the servers one after another, reads their catalogs, and writes a report on what
// they list and do to [inspection.File], without secrets. It returns the written report; if nothing
// was written, the report has no end time. The error may also mean that a server cannot be pinned.
// Failures of servers are in the report.
func Inspect(ctx context.Context, q Inspection) (inspection.Report, error) {
	i := &inspector{Inspection: q, absent: map[string]error{}}
	if err := i.plan(ctx); err != nil {
		return inspection.Report{}, err
	}
	backend, err := q.Host.Open(ctx, Opening{Run: q.ID, Isolated: !i.remote()})
	if err != nil {
		return inspection.Report{}, err
	}
	if err := makeDir(q.Dir); err != nil {
		err = mistake("the evidence cannot be written: %w; run waza in a directory that you may write to, or name one with --out", err)
		return inspection.Report{}, errors.Join(err, backend.Close(context.WithoutCancel(ctx)))
	}
	i.report = inspection.Report{Version: inspection.Version, ID: q.ID, Waza: q.Host.Waza, Source: q.Source, Started: time.Now().UTC()}
	err = i.setUp(ctx, backend)
	if err == nil {
		err = i.inspectAll(ctx, backend)
	}
	if err = errors.Join(orCause(ctx, err), backend.Close(context.WithoutCancel(ctx))); err != nil {
		return inspection.Report{}, err
	}
	i.report.Ended = time.Now().UTC()
	unpinned := i.pin()
	written, err := i.write()
	return written, errors.Join(err, unpinned)
}

// plan plans the inspection, and reads the secrets that it needs. Errors in the request or in
// files are of type [Mistake].
func (i *inspector) plan(ctx context.Context) (err error) {
	if i.lock, err = ReadLock(i.Eval); err != nil {
		return err
	}
	i.filled = i.lock
	i.plans, err = plan.PlanInspections(i.Eval, i.Servers, plan.Choices{
		Run: i.ID, Pull: i.Pull, Lookup: i.Host.Lookup, Secrets: i.Host.Secrets, Lock: i.lock, Platform: defaultPlatform(), Omit: []string{i.Dir}, Output: i.Host.Output,
	})
	if err != nil {
		return Mistake{err}
	}
	if !i.Isolated && !i.remote() {
		return mistake("inspect starts programs that you may not trust, and with --no-isolate they would run as yours, with your files and network: leave it out")
	}
	if err := i.Host.checkOffline(ctx, "run the command once without --offline", i.plans, plan.Needs(i.plans)); err != nil {
		return err
	}
	if err := i.Host.permit(ctx, i.Eval, i.plans); err != nil {
		return err
	}
	vault, err := openVault(ctx, i.plans, i.Eval.Dir(), i.Host.Lookup, i.Host.Secrets)
	if err != nil {
		return Mistake{err}
	}
	vault.Give(i.plans)
	return nil
}

// remote reports whether all servers are remote.
func (i *inspector) remote() bool { return i.local() == nil }

// local returns the plan of the first server that is not remote, or nil.
func (i *inspector) local() *plan.Trial {
	at := slices.IndexFunc(i.plans, func(t *plan.Trial) bool { return !t.Servers[0].Remote })
	if at < 0 {
		return nil
	}
	return i.plans[at]
}

// setUp installs packages, gets all images, and certifies the kind of sandbox that the servers run
// in. It leaves out servers whose packages or images are not available, unless none is left.
func (i *inspector) setUp(ctx context.Context, backend sandbox.Backend) error {
	if err := i.prepare(ctx, backend, i.plans); err != nil {
		for _, t := range i.plans {
			if ctx.Err() != nil || len(i.plans) == 1 {
				return err
			}
			if alone := i.prepare(ctx, backend, []*plan.Trial{t}); alone != nil {
				i.absent[t.Servers[0].Name] = alone
			}
		}
		if len(i.absent) == len(i.plans) {
			return err
		}
	}
	attackable, ok := backend.(selftest.Backend)
	if !ok {
		return nil
	}
	i.report.Engine = attackable.Describe()
	certificate, err := Certify(ctx, attackable, i.ID, i.local().Kind(), i.Host.Certificates.Of(i.Host.Build()), i.AllowWeak, i.Host.Say)
	i.report.Certificate = inspection.CertificateOf(certificate)
	return err
}

// prepare installs the packages of servers, and gets their images.
func (i *inspector) prepare(ctx context.Context, backend sandbox.Backend, plans []*plan.Trial) error {
	then := "for this inspection alone"
	if i.Pin || i.Resolved != nil {
		then = keptInLock
	}
	err := install(ctx, backend, plans, i.filled, then, i.Host.Say, func(entries []images.Entry) (*images.Lock, error) {
		i.filled = i.filled.Fill(entries)
		if i.Resolved != nil {
			i.Resolved(i.filled)
		}
		return i.filled, nil
	})
	if err != nil {
		return err
	}
	return backend.Prepare(ctx, plan.Specs(plans), i.Host.Say)
}

func (i *inspector) inspectAll(ctx context.Context, backend sandbox.Backend) error {
	var weak []string
	if i.report.Certificate != nil {
		weak = i.report.Certificate.GotOut
	}
	for _, t := range i.plans {
		s := t.Servers[0]
		if why := i.absent[s.Name]; why != nil {
			i.report.Servers = append(i.report.Servers, inspection.Server{
				Name: s.Name, Config: s.Config, Transport: s.Transport, Failed: why.Error(), Catalog: catalog.Catalog{Lists: []catalog.List{}},
			})
			continue
		}
		i.Host.Say("inspecting " + s.Name)
		o := trial.InspectOptions{Watch: i.Watch, Patience: i.Patience, Exercises: i.Exercises, Secrets: i.Host.Secrets, Weak: weak, Say: i.Host.Say}
		if i.Try != nil {
			o.Try = func(listed catalog.Catalog, answered []inspection.Answered) []inspection.Exercise {
				return i.Try(s.Name, listed, answered)
			}
		}
		found, err := inspectOne(ctx, backend, t, evidence.Dir(filepath.Join(i.Dir, s.Name)), o)
		if err != nil {
			return err
		}
		found.Evidence = s.Name
		images := backend.Images()
		i.identify(&found, s, images)
		if pin := i.lock.Pin(found.Name); pin != nil && found.Failed == "" {
			found.Pin = &inspection.PinCheck{Lock: LockPath(i.Eval), Differences: pin.Differences(found.Catalog)}
		}
		i.report.Servers = append(i.report.Servers, found)
	}
	i.report.Find()
	return nil
}

// identify adds the image and package of a server.
func (i *inspector) identify(found *inspection.Server, s plan.Server, images evidence.ImageRecords) {
	if s.Remote {
		return
	}
	record := images[s.Image]
	found.Image = &inspection.Image{Ref: s.Image, ID: record.ID, Digests: record.Digests}
	if s.Build != nil && s.Build.Entry != nil {
		found.Package = &inspection.Package{Request: s.Build.Package.String(), Version: s.Build.Entry.Version, Locked: i.lock.Has(*s.Build.Entry)}
	}
}

// pin writes the servers' catalogs, and the packages that they were installed from, to the lock
// file, if requested. If one cannot be pinned, nothing is written.
func (i *inspector) pin() error {
	if !i.Pin {
		return nil
	}
	lock, err := ReadLock(i.Eval) // it may have changed meanwhile
	if err != nil {
		return err
	}
	var errs []error
	for n, found := range i.report.Servers {
		pin, err := found.Catalog.Pin()
		switch {
		case found.Failed != "":
			err = errors.New("it could not be inspected")
		case len(found.Drift) > 0:
			err = fmt.Errorf("it listed something else a moment later: %s", found.Drift[0])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("server %q cannot be pinned: %w", found.Name, err))
			continue
		}
		if build := i.plans[n].Servers[0].Build; build != nil && build.Entry != nil && !lock.Has(*build.Entry) {
			lock = lock.With(*build.Entry)
		}
		lock = lock.Pinned(found.Name, pin)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := WriteLock(i.Eval, lock); err != nil {
		return err
	}
	for _, found := range i.report.Servers {
		i.Host.Say(fmt.Sprintf("pinned %s in %s", found.Name, LockPath(i.Eval)))
	}
	return nil
}

// write writes the report without secrets, and returns what was written.
func (i *inspector) write() (written inspection.Report, err error) {
	data, err := i.report.Document()
	if err != nil {
		return written, err
	}
	data, _ = i.Host.Secrets.JSON(data)
	if err := evidence.WriteFile(filepath.Join(i.Dir, inspection.File), data); err != nil {
		return written, err
	}
	return written, json.Unmarshal(data, &written)
}

// inspectOne inspects the server of a plan of [plan.PlanInspections], and adds data from the
// evidence.
func inspectOne(ctx context.Context, backend sandbox.Opener, t *plan.Trial, dir evidence.Dir, o trial.InspectOptions) (inspection.Server, error) {
	found, record, err := trial.Inspect(ctx, backend, t, dir, o)
	if err == nil {
		err = gather(&found, dir, record)
	}
	return found, err
}

// gather adds data from the evidence of an inspected server.
func gather(f *inspection.Server, dir evidence.Dir, trial evidence.Trial) error {
	if _, err := grading.Grade(dir, trial); err != nil { // also writes the catalogs
		return err
	}
	all, err := readRecorded(dir, results.Trial{Trial: trial})
	if err != nil {
		return err
	}
	f.Guarantees = trial.Guarantees
	for _, report := range all.Reports() {
		f.Did, f.Ends = report.Activity, report.Ends
		if report.Catalog != nil {
			f.Tokens = report.Catalog.Tokens
		}
	}
	if used, there := trial.Resources[f.Name]; there && !f.Remote {
		f.Used = &used
	}
	if f.Stderr, err = tail(filepath.Join(string(dir), evidence.ServersDir, f.Name+".stderr")); err != nil {
		return err
	}
	if f.Noise, err = noise(dir); err != nil {
		return err
	}
	if f.Asked, err = asked(dir); err != nil {
		return err
	}
	died(f)
	return nil
}

// died marks a server as failed if it ended before it had listed everything.
func died(f *inspection.Server) {
	partial := slices.ContainsFunc(f.Catalog.Lists, func(l catalog.List) bool { return l.Partial != "" })
	if f.Ended == "" || len(f.Catalog.Lists) > 0 && !partial {
		return
	}
	err := fmt.Errorf("it answered initialize, and then it %s", f.Ended)
	f.Failed = hint.Add(err, cmp.Or(hint.OnServer(f.Name, f.Stderr, "", !f.Remote), reached(f))).Error()
	f.Ended = ""
}

const (
	maxReached = 3   // places that a hint lists
	maxPlace   = 100 // bytes of a place
)

// reached returns a hint based on a server's attempts to leave its sandbox, or "".
func reached(f *inspection.Server) string {
	if f.Did == nil {
		return ""
	}
	var places []string
	for _, n := range f.Did.Names {
		if !n.Answered {
			places = append(places, n.Name)
		}
	}
	for _, h := range f.Did.Egress {
		if h.Refused > 0 {
			places = append(places, fmt.Sprintf("%s:%d", h.Name, h.Port))
		}
	}
	for _, c := range f.Did.Connections {
		if c.Outside() {
			places = append(places, c.Address)
		}
	}
	if len(places) == 0 {
		return ""
	}
	listed := text.Some(places, maxReached, func(place string) string { return text.Line(place, maxPlace) })
	return fmt.Sprintf("%s tried to reach %s, which its sandbox does not allow: if it needs that, allow it with --egress %[1]s=HOST, or with egress in its configuration",
		f.Name, strings.Join(listed, ", "))
}

// maxTail is how many bytes at the end of a server's stderr are reported.
const maxTail = 4 << 10

// tail returns the last bytes of a file, from the start of a line if there is one.
func tail(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-maxTail)
	end, err := io.ReadAll(io.NewSectionReader(file, from, maxTail))
	if at := bytes.IndexByte(end, '\n'); from > 0 && at >= 0 {
		end = end[at+1:]
	}
	return string(end), err
}

func noise(dir evidence.Dir) (int, error) {
	events, err := dir.Events()
	noisy := slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Kind != "stdout_noise" })
	return len(noisy), err
}

// maxAsked is how many distinct methods that a server requested are reported.
const maxAsked = 32

// asked counts a server's requests to its client by method.
func asked(dir evidence.Dir) (map[string]int, error) {
	count := map[string]int{}
	for f, err := range dir.Frames() {
		if err != nil {
			return nil, fmt.Errorf("inspection: %w", err)
		}
		m, err := jsonrpc.ReadOne(f.Raw)
		if err != nil || f.Dir != evidence.ToClient || !m.IsRequest() || len(count) == maxAsked && count[m.Method] == 0 {
			continue
		}
		count[m.Method]++
	}
	return count, nil
}
