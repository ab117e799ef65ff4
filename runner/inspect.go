package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// Inspection asks for MCP servers to be inspected, each alone in a sandbox of its own.
type Inspection struct {
	ID        string
	Eval      *eval.Eval // which has the servers
	Servers   []string   // the names of those to inspect, sorted
	Source    string     // where they are configured, for people
	Dir       string     // for the evidence, new or empty
	Isolated  bool       // run servers in containers: all must be remote otherwise
	Pull      string     // when to pull images; empty for what the eval says
	Pin       bool       // keep in the lock what each server lists
	Watch     time.Duration
	Patience  time.Duration
	Exercises []inspection.Exercise
	// Try returns further exercises for the server of a name, by what it lists; nil for none.
	Try       func(server string, listed catalog.Catalog) []inspection.Exercise
	AllowWeak []string // names attacks that may get out of the sandbox

	Host
}

// inspector is an inspection under way.
type inspector struct {
	Inspection
	lock   *images.Lock // as its file is
	plans  []*plan.Trial
	report inspection.Report
}

// Inspect starts the servers one after another, asks them for all that they list, and writes
// what they list and do to [inspection.File], without secrets. It returns what it has
// written; a report that has not ended was not written. The error is also of a server that
// cannot be pinned. What is wrong with a server is in the report.
func Inspect(ctx context.Context, q Inspection) (inspection.Report, error) {
	i := &inspector{Inspection: q}
	if err := i.plan(ctx); err != nil {
		return inspection.Report{}, err
	}
	backend, err := q.Open(ctx, Opening{Run: q.ID, Isolated: !i.remote()})
	if err != nil {
		return inspection.Report{}, err
	}
	i.report = inspection.Report{Version: inspection.Version, ID: q.ID, Waza: q.Waza, Source: q.Source, Started: time.Now().UTC()}
	err = i.prepare(ctx, backend)
	if err == nil {
		err = i.inspectAll(ctx, backend)
	}
	if err = errors.Join(err, backend.Close(context.WithoutCancel(ctx))); err != nil {
		return inspection.Report{}, err
	}
	i.report.Ended = time.Now().UTC()
	unpinned := i.pin()
	written, err := i.write()
	return written, errors.Join(err, unpinned)
}

// plan plans the inspection, and reads the secrets that it needs. What is wrong with the
// request or with the files is a [Mistake].
func (i *inspector) plan(ctx context.Context) (err error) {
	if i.lock, err = ReadLock(i.Eval); err != nil {
		return err
	}
	i.plans, err = plan.PlanInspections(i.Eval, i.Servers, plan.Choices{
		Run: i.ID, Pull: i.Pull, Lookup: i.Lookup, Secrets: i.Secrets, Lock: i.lock, Platform: likelyPlatform(), Omit: []string{i.Dir},
	})
	if err != nil {
		return Mistake{err}
	}
	if !i.Isolated && !i.remote() {
		return mistake("inspect starts programs that you may not trust, and without --isolate they would run as yours, with your files and network: add --isolate")
	}
	vault, err := openVault(ctx, i.plans, i.Eval.Dir(), i.Lookup, i.Secrets)
	if err != nil {
		return Mistake{err}
	}
	vault.Give(i.plans)
	return nil
}

// remote reports whether all servers are remote, so that nothing is started here.
func (i *inspector) remote() bool { return i.local() == nil }

// local is the plan of a server that is not remote; nil where there is none.
func (i *inspector) local() *plan.Trial {
	at := slices.IndexFunc(i.plans, func(t *plan.Trial) bool { return !t.Servers[0].Remote })
	if at < 0 {
		return nil
	}
	return i.plans[at]
}

// prepare installs packages, gets all images, and attacks a sandbox of the kind that the
// servers go into.
func (i *inspector) prepare(ctx context.Context, backend Backend) error {
	then := "for this inspection alone"
	if i.Pin {
		then = keptInLock
	}
	err := install(ctx, backend, i.plans, i.lock, then, i.Say, func(entries []images.Entry) (*images.Lock, error) {
		return i.lock.Fill(entries), nil
	})
	if err != nil {
		return err
	}
	attackable, ok := backend.(selftest.Backend)
	if err := prepare(ctx, backend, i.plans, i.Say); err != nil || !ok {
		return err
	}
	i.report.Engine = attackable.Describe()
	certificate, err := Certify(ctx, attackable, i.ID, selftest.KindOf(i.local()), i.Certificates, i.AllowWeak, i.Say)
	i.report.Certificate = inspection.CertificateOf(certificate)
	return err
}

func (i *inspector) inspectAll(ctx context.Context, backend Backend) error {
	var weak []string
	if i.report.Certificate != nil {
		weak = i.report.Certificate.GotOut
	}
	for _, t := range i.plans {
		s := t.Servers[0]
		i.Say("inspecting " + s.Name)
		o := trial.InspectOptions{Watch: i.Watch, Patience: i.Patience, Exercises: i.Exercises, Secrets: i.Secrets, Weak: weak}
		if i.Try != nil {
			o.Try = func(listed catalog.Catalog) []inspection.Exercise { return i.Try(s.Name, listed) }
		}
		found, err := inspectOne(ctx, backend, t, evidence.Dir(filepath.Join(i.Dir, s.Name)), o)
		if err != nil {
			return err
		}
		found.Evidence = s.Name
		_, images := describe(backend)
		i.identify(&found, s, images)
		if pin := i.lock.Pin(found.Name); pin != nil && found.Failed == "" {
			found.Pin = &inspection.PinCheck{Lock: LockPath(i.Eval), Differences: pin.Differences(found.Offer)}
		}
		i.report.Servers = append(i.report.Servers, found)
	}
	i.report.Mark()
	return nil
}

// identify adds which image and package were run.
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

// pin keeps in the lock what the servers list, and the packages that they were installed
// from, where that was asked for: of all of them, or of none.
func (i *inspector) pin() error {
	if !i.Pin {
		return nil
	}
	lock, err := ReadLock(i.Eval) // another may have written it meanwhile
	if err != nil {
		return err
	}
	var errs []error
	for n, found := range i.report.Servers {
		pin, err := found.Offer.Pin()
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
		i.Say(fmt.Sprintf("pinned %s in %s", found.Name, LockPath(i.Eval)))
	}
	return nil
}

// write writes the report without secrets, and returns it so.
func (i *inspector) write() (written inspection.Report, err error) {
	data, err := i.report.Document()
	if err != nil {
		return written, err
	}
	data, _ = i.Secrets.JSON(data)
	if err := evidence.WriteFile(filepath.Join(i.Dir, inspection.File), data); err != nil {
		return written, err
	}
	return written, json.Unmarshal(data, &written)
}

// inspectOne inspects the server of a plan of [plan.PlanInspections], and adds what its
// evidence shows.
func inspectOne(ctx context.Context, backend trial.Backend, t *plan.Trial, dir evidence.Dir, o trial.InspectOptions) (inspection.Server, error) {
	found, record, err := trial.Inspect(ctx, backend, t, dir, o)
	if err == nil {
		err = gather(&found, dir, record)
	}
	return found, err
}

// gather adds what the evidence of an inspected server shows.
func gather(f *inspection.Server, dir evidence.Dir, trial evidence.Trial) error {
	if _, err := grading.Grade(dir, trial); err != nil { // it derives what servers listed
		return err
	}
	all, err := readRecorded(dir, results.Trial{Trial: trial})
	if err != nil {
		return err
	}
	f.Guarantees = trial.Guarantees
	for _, report := range all.Reports() {
		f.Did, f.Ends = report.Conduct, report.Ends
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
	f.Asked, err = asked(dir)
	return err
}

// maxTail is how many bytes of the end of a server's stderr are reported.
const maxTail = 4 << 10

// tail returns the end of a file, from the start of a line if there is one.
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

// maxAsked bounds how many of the methods that a server requested are reported.
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
