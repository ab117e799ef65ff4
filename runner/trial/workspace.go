package trial

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// workspace is the agent's, which is filled before the agent starts.
type workspace struct{ *stage }

// fill keeps the task's files as evidence, puts them into the workspace,
// and adds the links to mcp.json and to the skills, which are put out of the workspace.
func (w workspace) fill(ctx context.Context) error {
	if err := w.keepBefore(); err != nil {
		return err
	}
	files, fill := io.Pipe()
	go func() { _ = fill.CloseWithError(writeWorkspace(fill, w.plan)) }()
	err := w.sandbox.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, files)
	_ = files.CloseWithError(err)
	if err != nil {
		return err
	}
	if err := w.makeWorkdir(ctx); err != nil {
		return err
	}
	if err := w.putSkills(ctx); err != nil {
		return err
	}
	var tree bytes.Buffer
	if err := writeLinks(&tree, w.plan.Links(sandbox.LayoutOf(w.sandbox, sandbox.Agent))); err != nil {
		return err
	}
	if err := w.sandbox.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, &tree); err != nil {
		return err
	}
	if err := w.putCommands(ctx); err != nil {
		return err
	}
	w.tellInjectedFiles()
	return nil
}

// makeWorkdir makes the directory of the workspace that the agent starts in, where no file
// has brought it.
func (w workspace) makeWorkdir(ctx context.Context) error {
	dir, ok := strings.CutPrefix(w.plan.Agent.Dir, sandbox.WorkspaceDir+"/")
	if !ok || slices.ContainsFunc(w.plan.Files, func(f plan.File) bool { return strings.HasPrefix(f.Path, dir+"/") }) {
		return nil
	}
	var tree bytes.Buffer
	out := tar.NewWriter(&tree)
	err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return w.sandbox.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, &tree)
}

// keepBefore keeps the task's files as workspace.tar is kept, so that one can be held
// against the other.
func (w workspace) keepBefore() error {
	before, err := w.rec.Tree(evidence.BeforeFile)
	if err != nil {
		return err
	}
	return errors.Join(writeWorkspace(before, w.plan), before.Close())
}

// writeWorkspace writes a task's files and repositories as tar.
func writeWorkspace(w io.Writer, t *plan.Trial) error {
	out := tar.NewWriter(w)
	if err := writeFiles(out, t.Files); err != nil {
		return err
	}
	for _, r := range t.Repos {
		if err := writeRepo(out, r); err != nil {
			return fmt.Errorf("repository %s: %w", r.Source, err)
		}
	}
	return out.Close()
}

func put(ctx context.Context, sb sandbox.Sandbox, container, dir string, files []plan.File) error {
	if len(files) == 0 {
		return nil
	}
	var tree bytes.Buffer
	if err := writeTree(&tree, files); err != nil {
		return err
	}
	return sb.Put(ctx, container, dir, &tree)
}

// writeTree writes files as tar. Paths are relative to where it is unpacked.
func writeTree(w io.Writer, files []plan.File) error {
	out := tar.NewWriter(w)
	if err := writeFiles(out, files); err != nil {
		return err
	}
	return out.Close()
}

func writeFiles(out *tar.Writer, files []plan.File) error {
	for _, f := range files {
		if err := writeFile(out, f); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

func writeFile(out *tar.Writer, f plan.File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	mode := int64(0o644)
	if f.Executable() {
		mode = 0o755
	}
	name := strings.TrimPrefix(f.Path, "/")
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: f.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(out, content, f.Size())
	return err
}

// writeLinks writes links as tar.
func writeLinks(w io.Writer, links []plan.Link) error {
	out := tar.NewWriter(w)
	for _, l := range links {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l.Name, Linkname: l.Target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeRepo adds a repository to a workspace.
func writeRepo(out *tar.Writer, r plan.Repo) error {
	if r.Tree == nil {
		return errors.New("it was not fetched")
	}
	for e, err := range tree.Entries(r.Tree.Open()) {
		if err != nil {
			return err
		}
		if e.Name = path.Join(r.Dest, e.Name); e.Kind() == tree.Directory {
			e.Name += "/"
		}
		if err := out.WriteHeader(e.Header); err != nil {
			return err
		}
		if _, err := io.Copy(out, e.Content); err != nil {
			return err
		}
	}
	return nil
}

// putSkills puts the skills into the agent's container, out of the workspace.
func (w workspace) putSkills(ctx context.Context) error {
	var files []plan.File
	for _, skill := range w.plan.Skills {
		files = append(files, skill.Files...)
	}
	return w.put(ctx, sandbox.Agent, "/", files)
}

// injectionsFor is what a trial's attack has the agent find in results of a server.
func injectionsFor(t *plan.Trial, server string) (all []proxy.Injection) {
	if !t.UnderAttack() {
		return nil
	}
	for i, one := range t.Attack.Injections {
		if one.Server == server && one.Tool != "" {
			all = append(all, proxy.Injection{Number: i + 1, Tool: one.Tool, Text: one.Text, Match: one.Match})
		}
	}
	return all
}

// tellInjectedFiles tells which injections are in the workspace that the agent gets.
func (w workspace) tellInjectedFiles() {
	if !w.plan.UnderAttack() {
		return
	}
	for i, one := range w.plan.Attack.Injections {
		if one.File != "" {
			w.rec.Event(evidence.Event{
				Kind: evidence.EventInjection, Where: sandbox.Agent, Message: fmt.Sprintf("injection %d is in file %s", i+1, one.File),
				Data: map[string]any{evidence.DataInjection: i + 1, "file": one.File},
			})
		}
	}
}

// putCommands puts our executable into the agent's container under the names of what it plays.
func (w workspace) putCommands(ctx context.Context) error {
	if len(w.plan.Commands) == 0 {
		return nil
	}
	var tree bytes.Buffer
	out := tar.NewWriter(&tree)
	guest := sandbox.LayoutOf(w.sandbox, sandbox.Agent).Guest
	var errs []error
	for _, c := range w.plan.Commands {
		errs = append(errs, out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path.Base(plan.CommandsDir) + "/" + c.Name, Linkname: guest, Mode: 0o777}))
	}
	if err := errors.Join(append(errs, out.Close())...); err != nil {
		return err
	}
	return w.sandbox.Put(ctx, sandbox.Agent, sandbox.HomeDir, &tree)
}
