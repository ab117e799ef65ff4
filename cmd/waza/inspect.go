package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox/local"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

const (
	defaultWatch    = 5 * time.Second
	defaultPatience = 30 * time.Second
)

// inspectCommand is waza inspect.
type inspectCommand struct{ *state }

func (s inspectCommand) command() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "start MCP servers alone, and tell what they list and do",
		ArgsUsage: "FILE|NAME|URL | -- COMMAND [ARGS]",
		Description: "FILE is an eval, or a client's file such as mcp.json; NAME is a server of eval.yaml, mcp.json\n" +
			"or .mcp.json here; COMMAND is as a client would start it: npx, uvx, docker run, or a program of --image.\n" +
			"Each server is started in a container of its own, asked for its lists, left alone for a while, and\n" +
			"ended. Nothing that it lists is called, read or got unless that is asked for.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "isolate", Usage: "run servers in containers; needed for all that are not remote"},
			&cli.StringSliceFlag{Name: "server", Usage: "inspect only the server of this `NAME`; may be given again"},
			&cli.StringFlag{Name: "image", Usage: "run COMMAND, and servers of a client's file that have none, in this `IMAGE`"},
			&cli.DurationFlag{Name: "for", Value: defaultWatch, Usage: "watch each server for this `TIME` when it has listed all"},
			&cli.DurationFlag{Name: "patience", Value: defaultPatience, Usage: "`TIME` that one list, or one exercise, may take"},
			&cli.StringFlag{Name: "call", Usage: "call this `TOOL`"},
			&cli.StringFlag{Name: "get", Usage: "get this `PROMPT`"},
			&cli.StringFlag{Name: "args", Usage: "arguments of --call or --get, as a `JSON` object"},
			&cli.StringFlag{Name: "read", Usage: "read the resource of this `URI`"},
			&cli.StringFlag{Name: "out", Usage: "new `DIR` for evidence (default: .waza/inspections/<time>-<name>)"},
			&cli.StringFlag{Name: "pull", Usage: "pull images by this `POLICY`: missing, always or never", DefaultText: "the eval's"},
			&cli.StringSliceFlag{Name: "allow-weak", Usage: "inspect although the attack `NAME` gets out of the sandbox; may be given again"},
			&cli.BoolFlag{Name: "pin", Usage: "keep in waza.lock what each server lists, so that a later run tells what is another"},
			&cli.BoolFlag{Name: "full", Usage: "show descriptions and schemas whole"},
			formatFlag(formatDefault, formatJSON),
		},
		Action: func(c *cli.Context) error {
			i, err := s.newInspector(c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c.Context, s.stderr)
			defer stop()
			return i.run(ctx)
		},
	}
}

// inspector is one waza inspect.
type inspector struct {
	*state
	options inspectOptions
	target  target
	lock    *images.Lock // with what was resolved for this time
	kept    *images.Lock // as its file is
	plans   []*plan.Trial
	secrets *redact.Set
	vault   *runner.Vault // nil until servers are about to be started
	id      string
	dir     string
	report  inspection.Report
}

func (s inspectCommand) newInspector(c *cli.Context) (*inspector, error) {
	o, err := readInspectOptions(c)
	if err != nil {
		return nil, err
	}
	target, err := s.findTarget(c, o)
	if err != nil {
		return nil, err
	}
	i := &inspector{state: s.state, options: o, target: target, secrets: &redact.Set{}}
	for _, secret := range target.secrets {
		i.secrets.Add(secret)
	}
	if i.lock, err = runner.ReadLock(target.eval); err != nil {
		return nil, err
	}
	i.kept = i.lock
	i.id = runner.NewID("inspect " + target.names[0])
	if i.dir = o.out; i.dir == "" {
		i.dir = filepath.Join(".waza", "inspections", i.id)
	}
	if err := isNewOrEmpty(i.dir, "--out"); err != nil {
		return nil, err
	}
	if err := i.plan(runner.LikelyPlatform()); err != nil {
		return nil, err
	}
	if len(o.exercises) > 0 && len(i.plans) > 1 {
		return nil, usage("--%s is for one server; choose it with --server: %s", o.exercises[0].What, quotedNames(target.names))
	}
	if !o.isolate && !i.remote() {
		return nil, usage("inspect starts programs that you may not trust, and without --isolate they would run as yours, with your files and network: add --isolate")
	}
	return i, nil
}

func (i *inspector) plan(platform string) (err error) {
	i.plans, err = plan.PlanInspections(i.target.eval, i.target.names, plan.Choices{
		Run: i.id, Pull: i.options.pull, Lookup: i.lookup, Secrets: i.secrets, Lock: i.lock, Platform: platform,
	})
	if err != nil {
		return usage("%w", err)
	}
	if i.vault != nil {
		i.vault.Give(i.plans)
	}
	return nil
}

// readSecrets has what servers are given secretly at hand.
func (i *inspector) readSecrets(ctx context.Context) (err error) {
	if i.vault, err = runner.OpenVault(ctx, i.plans, i.target.eval.Dir(), i.lookup, i.secrets); err != nil {
		return usage("%w", err)
	}
	i.vault.Give(i.plans)
	return nil
}

// remote says whether nothing is to be run here.
func (i *inspector) remote() bool {
	return !slices.ContainsFunc(i.plans, func(t *plan.Trial) bool { return !t.Servers[0].Remote })
}

func (i *inspector) open(ctx context.Context) (runner.Backend, error) {
	if i.remote() {
		return local.Open(local.Options{Run: i.id})
	}
	return containers.Open(ctx, containers.Options{
		Run: i.id, Guest: i.guest, Digest: i.digest, Network: buildNetwork(i.lookup, i.secrets), Redact: i.secrets.String,
	})
}

// run inspects the servers, one after another, and tells of them.
func (i *inspector) run(ctx context.Context) (err error) {
	if err := i.readSecrets(ctx); err != nil {
		return err
	}
	backend, err := i.open(ctx)
	if err != nil {
		return infra(err)
	}
	i.report = inspection.Report{Version: inspection.Version, ID: i.id, Waza: i.version, Source: i.target.source, Started: time.Now().UTC()}
	err = i.prepare(ctx, backend)
	if err == nil {
		err = i.inspectAll(ctx, backend)
	}
	i.report.Ended = time.Now().UTC()
	if err = errors.Join(err, backend.Close(context.WithoutCancel(ctx))); err != nil {
		return infra(err)
	}
	return i.tell()
}

// prepare has all images there, and attacks a sandbox of the kind that they go into.
func (i *inspector) prepare(ctx context.Context, backend runner.Backend) error {
	attackable, ok := backend.(selftest.Backend)
	if installer, installs := backend.(runner.Installer); installs {
		if err := i.install(ctx, installer); err != nil {
			return err
		}
	}
	if err := runner.Prepare(ctx, backend, i.plans, i.sayTo); err != nil || !ok {
		return err
	}
	i.report.Engine = attackable.Describe()
	kept, err := runner.Certify(ctx, attackable, i.id, selftest.KindOf(i.isolated()), certificateCache(), i.options.allowWeak, i.sayTo)
	i.report.Certificate = inspection.CertificateOf(kept)
	return err
}

// isolated is one of the plans that are not of remote servers.
func (i *inspector) isolated() *plan.Trial {
	return i.plans[slices.IndexFunc(i.plans, func(t *plan.Trial) bool { return !t.Servers[0].Remote })]
}

// install resolves the packages that the lock lacks, for this time.
func (i *inspector) install(ctx context.Context, backend runner.Installer) error {
	packages, err := plan.Packages(i.target.eval, plan.Uninstalled(i.target.eval, i.target.names), i.lock, backend.Platform())
	if err != nil || len(packages) == 0 {
		return err
	}
	entries, err := runner.Resolve(ctx, backend, packages, i.lock, i.then(), i.sayTo)
	if err != nil {
		return err
	}
	i.lock = i.lock.Fill(entries)
	return i.plan(backend.Platform())
}

// then is what becomes of what was resolved.
func (i *inspector) then() string {
	if i.options.pin {
		return runner.KeptInLock
	}
	return "for this inspection alone"
}

func (i *inspector) inspectAll(ctx context.Context, backend runner.Backend) error {
	for _, t := range i.plans {
		s := t.Servers[0]
		fmt.Fprintf(i.stderr, "inspecting %s\n", s.Name)
		found, err := runner.Inspect(ctx, backend, t, evidence.Dir(filepath.Join(i.dir, s.Name)), trial.InspectOptions{
			Watch: i.options.watch, Patience: i.options.patience, Exercises: i.options.exercises, Secrets: i.secrets,
			Weak: weakOf(i.report.Certificate),
		})
		if err != nil {
			return err
		}
		found.Evidence = s.Name
		_, images := runner.Describe(backend)
		i.identify(&found, s, images)
		i.compare(&found)
		i.report.Servers = append(i.report.Servers, found)
	}
	i.report.Mark()
	return nil
}

func weakOf(c *inspection.Certificate) []string {
	if c == nil {
		return nil
	}
	return c.GotOut
}

// identify says what was run.
func (i *inspector) identify(found *inspection.Server, s plan.Server, images evidence.ImageRecords) {
	if s.Remote {
		return
	}
	record := images[s.Image]
	found.Image = &inspection.Image{Ref: s.Image, ID: record.ID, Digests: record.Digests}
	if s.Build != nil && s.Build.Entry != nil {
		found.Package = &inspection.Package{Request: s.Build.Package.String(), Version: s.Build.Entry.Version, Locked: i.kept.Has(*s.Build.Entry)}
	}
}

// tell writes the document, without secrets, and prints what it says.
func (i *inspector) tell() error {
	unpinned := i.pin()
	data, err := i.report.Document()
	if err != nil {
		return infra(err)
	}
	data, _ = i.secrets.JSON(data)
	if err := evidence.WriteFile(filepath.Join(i.dir, inspection.File), data); err != nil {
		return infra(err)
	}
	var told inspection.Report
	if err := json.Unmarshal(data, &told); err != nil {
		return infra(err)
	}
	if i.options.format == formatJSON {
		_, err = i.stdout.Write(data)
	} else {
		err = inspection.Print(i.stdout, told, inspection.Options{Width: width(i.stdout), Full: i.options.full, Dir: i.dir})
	}
	if err = errors.Join(err, unpinned); err != nil {
		return infra(err)
	}
	if slices.ContainsFunc(told.Servers, func(s inspection.Server) bool { return s.Failed != "" }) {
		return exitWith(exitInfra)
	}
	return nil
}

// isNewOrEmpty holds that a directory can take what a flag has written there.
func isNewOrEmpty(dir, flag string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return usage("%s: %w", flag, err)
	}
	return usage("%s: %s is not empty; name a new directory", flag, dir)
}
