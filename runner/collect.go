package runner

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
)

const (
	maxTranscript = 64 << 20
	// maxTree is how much of a workspace is brought out: its size limit, and
	// room for tar's own blocks.
	treeSlack = 256 << 20
)

// collect brings out what the agent left. What cannot be had is a gap in the
// evidence, which graders that need it turn into an error.
func (tr *trialRun) collect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	if err := tr.collectWorkspace(ctx); err != nil {
		tr.gap(evidence.GapWorkspace, err)
	}
	if tr.plan.Agent.Transcript != "" {
		if err := tr.collectTranscript(ctx); err != nil {
			tr.gap(evidence.GapTranscript, err)
		}
	}
	if name := outputPath(tr.plan.Agent); name != "" {
		output, err := readFromTree(tr.file(evidence.WorkspaceFile), name)
		if err != nil {
			tr.gap(evidence.GapFinalOutput, err)
		}
		tr.record.FinalOutput = output
	}
}

func (tr *trialRun) gap(what string, err error) {
	tr.record.Gaps = append(tr.record.Gaps, what+": "+err.Error())
}

func (tr *trialRun) file(name string) string { return filepath.Join(tr.rec.Dir(), name) }

// collectWorkspace writes workspace.tar, whole or not at all.
func (tr *trialRun) collectWorkspace(ctx context.Context) error {
	return tr.collectTree(ctx, WorkspaceDir, evidence.WorkspaceFile, tr.plan.Agent.Disk+treeSlack)
}

func (tr *trialRun) collectTree(ctx context.Context, dir, name string, limit int64) error {
	file, err := tr.rec.Raw(name)
	if err != nil {
		return err
	}
	err = tr.sandbox.Collect(ctx, AgentBox, dir, &bounded{w: file, left: limit})
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(tr.file(name)))
	}
	return nil
}

// collectTranscript brings out the directory of the transcript and keeps the one
// file in it.
func (tr *trialRun) collectTranscript(ctx context.Context) (err error) {
	const temp = ".transcript.tar"
	if err := tr.collectTree(ctx, path.Dir(tr.plan.Agent.Transcript), temp, maxTranscript); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tr.file(temp))) }()
	content, err := readFromTree(tr.file(temp), path.Base(tr.plan.Agent.Transcript))
	if err != nil {
		return err
	}
	out, err := tr.rec.Text(evidence.TranscriptFile)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, content)
	return errors.Join(err, out.Close())
}

// readFromTree reads one regular file out of a tar.
func readFromTree(tarPath, name string) (string, error) {
	file, err := os.Open(tarPath)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	for in := tar.NewReader(file); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("the agent left no file %s", name)
		}
		if err != nil {
			return "", err
		}
		if header.Typeflag == tar.TypeReg && path.Clean(header.Name) == name {
			var content strings.Builder
			_, err := io.Copy(&content, io.LimitReader(in, maxOutput))
			return content.String(), err
		}
	}
}

// bounded fails once more than left bytes are written.
type bounded struct {
	w    io.Writer
	left int64
}

var errTooLarge = errors.New("is larger than its limit allows")

func (b *bounded) Write(p []byte) (int, error) {
	b.left -= int64(len(p))
	if b.left < 0 {
		return 0, errTooLarge
	}
	return b.w.Write(p)
}

// hold keeps the sandbox standing for a person to look at, its servers within
// reach. What they do there is no evidence any more.
func (tr *trialRun) hold(ctx context.Context) error {
	if err := tr.serve(ctx, nobody{}); err != nil {
		return err
	}
	tr.run.o.Hold(ctx, tr.plan, tr.sandbox)
	return nil
}

// nobody takes frames and events and keeps none.
type nobody struct{}

func (nobody) Frame(evidence.Frame) int64 { return 0 }
func (nobody) Event(evidence.Event)       {}
