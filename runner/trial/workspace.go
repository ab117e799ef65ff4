package trial

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// fillWorkspace records the task's files as evidence, puts them into the agent's workspace, and adds links
// to mcp.json and the skills. Skills and mocked commands are put outside of the workspace.
func fillWorkspace(ctx context.Context, sb sandbox.Sandbox, t *plan.Trial, rec *evidence.Recorder) error {
	if err := keepBefore(t, rec); err != nil {
		return err
	}
	layout := sb.Layout(sandbox.Agent)
	err := putTree(ctx, sb, sandbox.Agent, sandbox.WorkspaceDir, func(out *tar.Writer) error {
		if err := writeWorkspace(out, t); err != nil {
			return err
		}
		return errors.Join(writeWorkdir(out, t), writeLinks(out, t.Links(layout)))
	})
	if err != nil {
		return err
	}
	if len(t.Skills)+len(t.Commands) > 0 {
		err = putTree(ctx, sb, sandbox.Agent, "/", func(out *tar.Writer) error {
			for _, skill := range t.Skills {
				if err := writeFiles(out, skill.Files); err != nil {
					return err
				}
			}
			return writeLinks(out, commandLinks(t, layout))
		})
	}
	if err == nil {
		recordInjectedFiles(t, rec)
	}
	return err
}

// keepBefore writes the task's files to before.tar in the format of workspace.tar, so that the
// two can be compared.
func keepBefore(t *plan.Trial, rec *evidence.Recorder) error {
	before, err := rec.Tree(evidence.BeforeFile)
	if err != nil {
		return err
	}
	out := tar.NewWriter(before)
	if err = writeWorkspace(out, t); err == nil {
		err = out.Close()
	}
	return errors.Join(err, before.Close())
}

// putTree puts the tar that write writes into a directory of a container. An error of write
// fails the operation.
func putTree(ctx context.Context, sb sandbox.Sandbox, container, dir string, write func(*tar.Writer) error) error {
	tree, in := io.Pipe()
	go func() {
		out := tar.NewWriter(in)
		err := write(out)
		if err == nil {
			err = out.Close()
		}
		_ = in.CloseWithError(err)
	}()
	err := sb.Put(ctx, container, dir, tree)
	_ = tree.CloseWithError(err)
	return err
}

// put puts files into a container.
func put(ctx context.Context, sb sandbox.Sandbox, container string, files []plan.File) error {
	if len(files) == 0 {
		return nil
	}
	return putTree(ctx, sb, container, "/", func(out *tar.Writer) error { return writeFiles(out, files) })
}

// writeWorkspace writes a task's files and repositories.
func writeWorkspace(out *tar.Writer, t *plan.Trial) error {
	if err := writeFiles(out, t.Files); err != nil {
		return err
	}
	for _, r := range t.Repos {
		if err := writeRepo(out, r); err != nil {
			return fmt.Errorf("repository %s: %w", r.Source, err)
		}
	}
	return nil
}

// writeWorkdir writes the agent's working directory within the workspace, unless a file creates
// it.
func writeWorkdir(out *tar.Writer, t *plan.Trial) error {
	dir, ok := strings.CutPrefix(t.Agent.Dir, sandbox.WorkspaceDir+"/")
	if !ok || slices.ContainsFunc(t.Files, func(f plan.File) bool { return strings.HasPrefix(f.Path, dir+"/") }) {
		return nil
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
}

// commandLinks returns links to the guest executable, named like the mocked commands.
func commandLinks(t *plan.Trial, layout sandbox.Layout) (links []plan.Link) {
	for _, c := range t.Commands {
		links = append(links, plan.Link{Name: path.Join(plan.CommandsDir, c.Name), Target: layout.Guest})
	}
	return links
}

// writeFiles writes files. Their paths are relative to where they are unpacked.
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

func writeLinks(out *tar.Writer, links []plan.Link) error {
	for _, l := range links {
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(l.Name, "/"), Linkname: l.Target, Mode: 0o777}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
	}
	return nil
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

// injectionsFor returns what a trial's attack adds to a server's results.
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

// faultsFor returns a function that chooses the faults of a trial's calls to a server, or nil.
func faultsFor(t *plan.Trial, server string) func(params json.RawMessage) *cassette.Fault {
	next := cassette.NewFaults(t.Faults, t.Task, t.Number).Of(cassette.Servers, server)
	if next == nil {
		return nil
	}
	return func(params json.RawMessage) *cassette.Fault {
		return next(func() map[string]any {
			asked := mock.Request("tools/call", params)
			asked["trial"], asked["sender"] = json.Number(strconv.Itoa(t.Number)), string(evidence.SenderAgent)
			return asked
		})
	}
}

// recordInjectedFiles records which injections are in files of the workspace.
func recordInjectedFiles(t *plan.Trial, rec *evidence.Recorder) {
	if !t.UnderAttack() {
		return
	}
	for i, one := range t.Attack.Injections {
		if one.File != "" {
			rec.Event(evidence.Event{
				Kind: evidence.EventInjection, Where: sandbox.Agent, Message: fmt.Sprintf("injection %d is in file %s", i+1, one.File),
				Data: map[string]any{evidence.DataInjection: i + 1, "file": one.File},
			})
		}
	}
}
