package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxTranscript is how much is brought out of the transcript's directory.
	maxTranscript = 64 << 20
	// A workspace may be larger as tar than its size limit: by so many times that, up to
	// so many bytes.
	treeRatio = 4
	treeSlack = 256 << 20
)

// collector is the phase in which what the agent left is brought out.
type collector struct{ *stage }

// collect brings out what the agent left. What cannot be had is a gap in the
// evidence, which graders that need it turn into an error; where somebody else is to
// blame for that it is returned.
func (c *collector) collect(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	complete := true
	if err := c.collectWorkspace(limited); err != nil {
		c.gap(evidence.GapWorkspace, err)
		complete = false
	}
	if c.plan.Agent.Transcript != "" {
		if err := c.collectTranscript(limited); err != nil {
			c.gap(evidence.GapTranscript, err)
			complete = false
		}
	}
	if !complete {
		if err := c.foreignEnding(ctx); err != nil {
			return err
		}
	}
	if name := c.plan.Agent.OutputFile(); name != "" {
		c.collectOutput(name)
	}
	if tells := c.plan.Agent.Tells; tells != nil {
		c.collectReported(*tells)
	}
	c.keepFinal()
	return nil
}

// collectReported keeps what the agent tells, and takes the final output from there where
// it is its messages. Without one it is the agent that left none.
func (c *collector) collectReported(tells transcript.Source) {
	said, err := c.keepReported(tells)
	if err != nil {
		c.gap(evidence.GapTranscript, err)
	}
	if c.plan.Agent.Output != plan.OutputTranscript {
		return
	}
	c.record.FinalOutput = string(upTo([]byte(said), maxFinal))
	silent := err == nil || errors.Is(err, errNothingReported) || errors.Is(err, errNoFile)
	switch {
	case len(said) > maxFinal:
		c.outputTooLarge()
	case said == "" && silent:
		c.blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent left no final output: "+errNoMessage.Error())
		c.gap(evidence.GapFinalOutput, errNoMessage)
	case err != nil:
		c.gap(evidence.GapFinalOutput, err)
	}
}

var errNoMessage = errors.New("its transcript has no message")

// collectOutput takes the final output from a file of the workspace. That there is
// none where the workspace is whole is the agent's doing.
func (c *collector) collectOutput(name string) {
	err := fileInTree(c.file(evidence.WorkspaceFile), name, func(in io.Reader) (err error) {
		c.record.FinalOutput, err = readHead(in)
		return err
	})
	switch {
	case errors.Is(err, errTooLarge):
		c.outputTooLarge()
	case errors.Is(err, errNoFile):
		c.blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent left no final output: "+err.Error())
		fallthrough
	case err != nil:
		c.gap(evidence.GapFinalOutput, err)
	}
}

// collectWorkspace writes workspace.tar, whole or not at all, with asterisks in place of
// secrets. That it cannot be whole for what the agent left is the agent's doing.
func (c *collector) collectWorkspace(ctx context.Context) error {
	file, err := c.rec.Tree(evidence.WorkspaceFile)
	if err != nil {
		return err
	}
	limit := maxTree(c.plan.Agent.Disk)
	if !defence.BoundedTrees {
		limit = max(limit, 160<<20) // for the sake of the machine
	}
	err = c.sandbox.Collect(ctx, sandbox.Agent, sandbox.WorkspaceDir, &bounded.Head{W: file, Limit: limit, Share: c.shares.Agent, Fail: errTooLarge})
	if errors.Is(err, errTooLarge) {
		c.blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent's workspace, holes filled in, "+errTooLarge.Error())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		if !defence.BoundedTrees {
			return err
		}
		return errors.Join(err, os.Remove(c.file(evidence.WorkspaceFile)))
	}
	return c.lookThrough()
}

// maxTree is how large a workspace of a size limit may be as tar.
func maxTree(disk int64) int64 { return disk + min(treeRatio*disk, treeSlack) }

// lookThrough notes where the agent put something in the place of a link to its mcp.json
// (what it called is recorded all the same), and where it left what is not collected.
func (c *collector) lookThrough() error {
	file, err := os.Open(c.file(evidence.WorkspaceFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cut := ""
	for e, err := range tree.Entries(file) {
		if err != nil {
			break // that it is cut off is for grading to find
		}
		name := e.Path
		brought := slices.ContainsFunc(c.plan.Files, func(f plan.File) bool { return f.Path == name })
		if slices.Contains(eval.ClientConfigs(), name) && !brought {
			c.rec.Event(evidence.Event{Kind: "mcp_config", Where: sandbox.Agent, Message: "the agent replaced " + name})
		}
		if why := e.Cut(); why != "" && cut == "" {
			cut = fmt.Sprintf("what the agent left in %.100q is not collected: it %s", name, why)
		}
	}
	if cut != "" {
		c.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: cut})
		c.blame(evidence.ClassAgentError, evidence.ReasonOutput, cut)
	}
	return nil
}

// collectTranscript keeps the one file of the transcript's directory. Nothing of that
// is on the disk before secrets are taken out of it.
func (c *collector) collectTranscript(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tree, out := io.Pipe()
	collected := make(chan error, 1)
	go func() {
		err := c.sandbox.Collect(ctx, sandbox.Agent, path.Dir(c.plan.Agent.Transcript), &bounded.Head{W: out, Limit: maxTranscript, Fail: errTooLarge})
		_ = out.CloseWithError(err)
		collected <- err
	}()
	err := readFileOf(tree, path.Base(c.plan.Agent.Transcript), c.keepTranscript)
	if err == nil || errors.Is(err, errNoFile) {
		_, rest := io.Copy(io.Discard, tree) // what is behind it, and whether all of it comes
		err = errors.Join(err, rest)
	}
	_ = tree.CloseWithError(errDone)
	cancel()
	if ended := <-collected; err == nil {
		err = ended
	}
	return err
}

var errDone = errors.New("nobody reads on")

func (c *collector) keepTranscript(in io.Reader) error {
	out, err := c.rec.Text(evidence.TranscriptFile)
	if err != nil {
		return err
	}
	_, err = io.Copy(&bounded.Head{W: out, Limit: maxTranscript, Share: c.shares.Agent, Fail: errTooLarge}, in)
	return errors.Join(err, out.Close())
}

var (
	errNoFile   = errors.New("no regular file of that name")
	errTooLarge = errors.New("is larger than its limit allows")
)

// fileInTree has one regular file of a tar read. It may be far larger than the
// tar, which is hostile: holes take no room there.
func fileInTree(tarPath, name string, read func(io.Reader) error) error {
	file, err := os.Open(tarPath)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return readFileOf(file, name, read)
}

// readFileOf is fileInTree for a tree that is read once.
func readFileOf(archive io.Reader, name string, read func(io.Reader) error) error {
	for e, err := range tree.Entries(archive) {
		if err != nil {
			return err
		}
		if e.Kind() == tree.File && e.Path == name {
			return read(e.Content)
		}
	}
	return fmt.Errorf("%w: %s", errNoFile, name)
}

// readHead reads the beginning of a final output: all of it, or it fails with
// errTooLarge.
func readHead(r io.Reader) (string, error) {
	var content strings.Builder
	n, err := io.Copy(&content, io.LimitReader(r, maxFinal+1))
	if n > maxFinal {
		return content.String()[:maxFinal], errTooLarge
	}
	return content.String(), err
}

// errNothingReported is what a mapping that fits nothing comes to, as does an agent that
// tells nothing: that is not known, and no account of having called nothing.
var errNothingReported = errors.New("no line tells of anything")

// keepReported reads what the agent tells where the eval says that it does, and keeps it
// as waza's events. What of it cannot be read is an event; where that may have told of
// a tool's use it is an error too, since the transcript is not whole. said is all that the
// agent said, a message below the other, or a little more of it than a final output has.
func (c *collector) keepReported(source transcript.Source) (said string, err error) {
	file, err := c.rec.Raw(evidence.TranscriptFile)
	if err != nil {
		return "", err
	}
	out, events := &bounded.Head{W: file, Limit: maxTranscript, Share: c.shares.Agent, Fail: errTooLarge}, 0
	var messages strings.Builder
	err = c.openReported(source.From, func(in io.Reader) error {
		report, err := source.Read(in, func(e evidence.TranscriptEvent) error {
			if e.Type == evidence.AssistantMessage && e.Content != "" && messages.Len() <= maxFinal {
				if messages.Len() > 0 {
					messages.WriteByte('\n')
				}
				messages.WriteString(e.Content)
			}
			return c.rec.Reported(out, e)
		})
		events = report.Events
		return errors.Join(c.tellReading(source, report), err)
	})
	if err == nil && events == 0 {
		err = errNothingReported
	}
	err = errors.Join(err, file.Close())
	if events == 0 {
		err = errors.Join(err, os.Remove(c.file(evidence.TranscriptFile)))
	}
	return messages.String(), err
}

// openReported has the place read where the agent tells.
func (c *collector) openReported(from string, read func(io.Reader) error) error {
	name, ofAgent := map[string]string{"stdout": evidence.StdoutFile, "stderr": evidence.StderrFile}[from]
	if !ofAgent {
		return fileInTree(c.file(evidence.WorkspaceFile), path.Clean(from), read)
	}
	file, err := os.Open(c.file(name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// tellReading records what of a transcript was passed over, and fails where it may
// have told of something.
func (c *collector) tellReading(source transcript.Source, r transcript.Report) error {
	event := func(kind, format string, args ...any) {
		message := fmt.Sprintf("transcript in %s: ", source.From) + fmt.Sprintf(format, args...)
		c.rec.Event(evidence.Event{Kind: kind, Where: sandbox.Agent, Message: message})
	}
	if r.Ignored > 0 {
		event("transcript_noise", "%d line(s) are no JSON objects", r.Ignored)
	}
	if r.Torn {
		event("gap", "the last line is cut off")
	}
	for _, why := range r.Why {
		event("gap", "%s", why)
	}
	if r.Unread > 0 {
		return fmt.Errorf("%d line(s) cannot be read, the first: %s", r.Unread, r.Why[0])
	}
	return nil
}
