package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/spec"
)

// fillWorkspace keeps the task's files as evidence, puts them into the workspace,
// and adds the links to mcp.json.
func (tr *trialRun) fillWorkspace(ctx context.Context) error {
	if err := tr.keepBefore(); err != nil {
		return err
	}
	before, err := os.Open(tr.file(evidence.BeforeFile))
	if err != nil {
		return err
	}
	defer func() { _ = before.Close() }()
	if err := tr.sandbox.Put(ctx, AgentBox, WorkspaceDir, before); err != nil {
		return err
	}
	var links bytes.Buffer
	if err := writeLinks(&links, tr.sandbox.Layout(AgentBox).MCPConfig, tr.plan.Files); err != nil {
		return err
	}
	return tr.sandbox.Put(ctx, AgentBox, WorkspaceDir, &links)
}

func (tr *trialRun) keepBefore() error {
	before, err := tr.rec.Raw(evidence.BeforeFile)
	if err != nil {
		return err
	}
	return errors.Join(writeTree(before, tr.plan.Files), before.Close())
}

// put puts files into a directory of a box.
func (tr *trialRun) put(ctx context.Context, box, dir string, files []File) error {
	return put(ctx, tr.sandbox, box, dir, files)
}

func put(ctx context.Context, sandbox Sandbox, box, dir string, files []File) error {
	if len(files) == 0 {
		return nil
	}
	var tree bytes.Buffer
	if err := writeTree(&tree, files); err != nil {
		return err
	}
	return sandbox.Put(ctx, box, dir, &tree)
}

// writeTree writes files as tar. Paths are relative to where it is unpacked.
func writeTree(w io.Writer, files []File) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		if err := writeFile(out, f); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return out.Close()
}

func writeFile(out *tar.Writer, f File) error {
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

// writeLinks writes the links to mcp.json as tar, but for places where something
// of the workspace stands or is in the way.
func writeLinks(w io.Writer, target string, files []File) error {
	out := tar.NewWriter(w)
	for _, link := range spec.ClientConfigs() {
		taken := slices.ContainsFunc(files, func(f File) bool {
			return f.Path == link || strings.HasPrefix(f.Path, link+"/") || strings.HasPrefix(link, f.Path+"/")
		})
		if taken {
			continue
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return out.Close()
}
