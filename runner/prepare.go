package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/gitrepo"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// errWeak means that a run was not started because an attack gets out of its sandbox.
var errWeak = errors.New("the sandbox does not hold")

// Certify returns the certificate for a kind of sandbox. If attacks that are not allowed get
// out, it returns errWeak and names them.
func Certify(ctx context.Context, b selftest.Backend, run string, kind evidence.SandboxKind, cache selftest.Cache, allowed []string, say func(string)) (*evidence.Certificate, error) {
	c, holes, err := selftest.Obtain(ctx, b, run, kind, cache, allowed, say)
	if err != nil {
		return nil, err
	}
	if len(holes) == 0 {
		return &c, nil
	}
	var names strings.Builder
	for _, a := range c.With(evidence.AttackGotOut) {
		if !a.Allowed {
			names.WriteString(" --allow-weak " + a.Name)
		}
	}
	return &c, fmt.Errorf("%w, so nothing was run:\n%s\nto run all the same:%s", errWeak, strings.Join(holes, "\n"), names.String())
}

// defaultPlatform returns the most likely platform of an engine on this machine.
func defaultPlatform() string { return "linux/" + runtime.GOARCH }

// keptInLock is printed for packages that are added to the lock file.
const keptInLock = "kept in " + images.LockName

// LockPath returns the path of an eval's lock file, which is next to it.
func LockPath(e *eval.Eval) string { return filepath.Join(e.Dir(), images.LockName) }

// ReadLock reads the lock file of an eval. A missing file is an empty lock; an invalid one is a
// [Mistake].
func ReadLock(e *eval.Eval) (*images.Lock, error) {
	path := LockPath(e)
	data, err := files.Read(path, images.MaxLockBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &images.Lock{}, nil
	case err != nil:
		return nil, mistake("the lock: %w", err)
	}
	lock, err := images.ParseLock(data)
	if err != nil {
		return nil, mistake("%s %w; correct it, or remove it and run: waza lock %s", path, err, e.Path)
	}
	return lock, nil
}

// WriteLock writes the lock file of an eval.
func WriteLock(e *eval.Eval, lock *images.Lock) error {
	path, err := e.Place(images.LockName)
	if err == nil {
		err = evidence.WriteFile(path, lock.Bytes())
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written, so the next run could install something else: %w", LockPath(e), err)
	}
	return nil
}

// install sets the versions of packages in the trials' plans, if the backend installs packages. It
// resolves packages that are not in the lock, and prints then with each. keep stores the resolved
// entries, and returns the new lock.
func install(ctx context.Context, backend sandbox.Backend, trials []*plan.Trial, lock *images.Lock, then string, say func(string), keep func([]images.Entry) (*images.Lock, error)) error {
	installer, ok := backend.(Installer)
	if !ok {
		return nil
	}
	for {
		if err := plan.Install(trials, lock, installer.Platform()); err != nil {
			return Mistake{err}
		}
		entries, err := resolve(ctx, installer, plan.Missing(trials), lock, then, say)
		if err != nil || len(entries) == 0 {
			return err
		}
		if lock, err = keep(entries); err != nil {
			return err
		}
	}
}

// resolve resolves packages to versions with the registry.
func resolve(ctx context.Context, installer Installer, packages []images.Image, lock *images.Lock, then string, say func(string)) (entries []images.Entry, err error) {
	for _, p := range packages {
		say(fmt.Sprintf("resolving %s", p))
		entry, err := installer.Resolve(ctx, p, lock)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
		say(fmt.Sprintf("resolved %s to %s, %s", p, entry.Version, then))
	}
	return entries, nil
}

// CompleteLock returns the lock of an eval, with missing packages resolved and unused ones
// removed. It opens a backend only to resolve packages, and writes nothing. Errors in files are
// of type [Mistake].
func CompleteLock(ctx context.Context, e *eval.Eval, tasks []eval.ResolvedTask, old *images.Lock, h Host) (*images.Lock, error) {
	packages, err := plan.Packages(e, tasks, old, defaultPlatform())
	if err != nil {
		return nil, Mistake{err}
	}
	var wanted []mcpconfig.Package
	for _, p := range packages {
		wanted = append(wanted, p.Package)
	}
	unresolved := func(i images.Image) bool { return i.Entry == nil }
	if slices.ContainsFunc(packages, unresolved) {
		if h.Permit != nil {
			if err := h.Permit(ctx, e.Path, []plan.Gift{{To: "the builds that resolve packages", Build: true}}); err != nil {
				return nil, err
			}
		}
		backend, err := h.Open(ctx, Opening{Run: NewID(e.Name), Isolated: true})
		if err != nil {
			return nil, err
		}
		var entries []images.Entry
		if installer, ok := backend.(Installer); ok {
			if packages, err = plan.Packages(e, tasks, old, installer.Platform()); err == nil {
				packages = slices.DeleteFunc(packages, func(i images.Image) bool { return !unresolved(i) })
				entries, err = resolve(ctx, installer, packages, old, keptInLock, h.Say)
			}
		}
		if err = errors.Join(orCause(ctx, err), backend.Close(context.WithoutCancel(ctx))); err != nil {
			return nil, err
		}
		old = old.Fill(entries)
	}
	return old.Only(wanted), nil
}

// orCause returns the cause of ctx if ctx is done, else err. So an interrupt is reported instead of
// the request that it canceled.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// GetImages opens the backend of a job and gets all images of its trials. The caller must close
// the backend.
func (j *Job) GetImages(ctx context.Context) (sandbox.Backend, error) {
	if err := j.Request.Host.checkOffline(ctx, getting(j.Request.Eval), j.Trials, plan.NeededImages(j.Trials)); err != nil {
		return nil, err
	}
	if err := j.Request.Host.permit(ctx, j.Eval, j.Trials); err != nil {
		return nil, err
	}
	backend, err := j.Request.Host.Open(ctx, Opening{Run: j.ID, Isolated: true, Trials: j.Trials})
	if err != nil {
		return nil, err
	}
	if err = j.installPackages(ctx, backend); err == nil {
		err = backend.Prepare(ctx, plan.Specs(j.Trials), j.Request.Host.Say)
	}
	err = orCause(ctx, err)
	if err != nil {
		return nil, errors.Join(err, backend.Close(context.WithoutCancel(ctx)))
	}
	return backend, nil
}

// fetchRepos fetches each repository of the trials once, and sets its commit in the plans. The
// error is a [Mistake] if a repository cannot be used.
func (h Host) fetchRepos(ctx context.Context, trials []*plan.Trial) error {
	trees := map[gitrepo.Source]*gitrepo.Tree{}
	for _, t := range trials {
		for i := range t.Repos {
			r := &t.Repos[i]
			source := gitrepo.Source{Path: r.Source, Remote: r.IsRemote(), Commit: r.Commit, Depth: r.Depth}
			if trees[source] == nil {
				tree, err := h.fetch(ctx, source)
				if err != nil {
					err = fmt.Errorf("task %s: %w", t.Task, err)
					if errors.As(err, new(gitrepo.RefusedError)) {
						return Mistake{err}
					}
					return err
				}
				trees[source] = tree
			}
			r.Tree, r.SHA = trees[source], trees[source].Commit
		}
	}
	return nil
}

// fetch fetches a repository, and shows its progress.
func (h Host) fetch(ctx context.Context, source gitrepo.Source) (*gitrepo.Tree, error) {
	what := "fetching the repository " + source.Path
	h.Say(what)
	if h.Work != nil {
		_, end := h.Work(what)
		defer end()
	}
	return gitrepo.Fetch(ctx, source)
}
