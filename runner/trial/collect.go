package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// maxTranscript is the maximum size of the transcript's directory in bytes.
const maxTranscript = 64 << 20

// collected is what an agent left.
type collected struct {
	final  finalOutput // the agent's output in all turns
	last   int         // offset in final at which the last turn begins
	losses []loss
	midway bool      // the agent has turns left, so this is not its final output
	at     time.Time // when it was collected
}

// loss is something that the agent should have left and that is missing, incomplete or unreadable.
type loss struct {
	what string // kind of gap; empty for shut and partial
	how  lossKind
	err  error
}

// lossKind is how something was lost.
type lossKind int

const (
	uncollected lossKind = iota // it cannot be copied out of the agent's container
	unread                      // it was collected, and cannot be read
	overlong                    // it exceeds the size that graders accept
	absent                      // the agent did not leave it
	shut                        // the agent closed its workspace
	partial                     // part of a file is not collected
)

// collector copies what the agent left into the evidence. Files of the workspace are read from
// workspace.tar on disk, since it may be larger than memory.
type collector struct {
	sandbox    sandbox.Sandbox
	containers []member // of the trial, the agent's among them
	plan       *plan.Trial
	rec        *evidence.Recorder
	found      collected
}

// collect copies the agent's workspace, transcript and final output into the evidence. The final
// output starts as that on stdout. before is the agent's output in earlier turns, with secrets
// replaced. collect returns an error only if the disk or somebody outside the trial caused a loss.
func (c *collector) collect(ctx context.Context, before string) error {
	limited, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	if err := c.collectWorkspace(limited); err != nil {
		if err := c.lost(ctx, evidence.GapWorkspace, err); err != nil {
			return err
		}
	}
	if c.plan.Agent.Transcript != "" {
		if err := c.collectTranscript(limited); err != nil {
			if err := c.lost(ctx, evidence.GapTranscript, err); err != nil {
				return err
			}
		}
	}
	if name := c.plan.Agent.OutputFile(); name != "" {
		c.collectOutput(name)
	}
	if source := c.plan.Agent.Events; source != nil {
		c.convertTranscript(*source)
	}
	c.splitFinal(before)
	return nil
}

// splitFinal divides the output on stdout into that of the last turn and that of earlier turns.
func (c *collector) splitFinal(before string) {
	if c.plan.Agent.SaysOnStdout() {
		c.found.last = turnBegins(c.found.final.text, before)
	}
}

func (c *collector) lose(what string, how lossKind, err error) {
	c.found.losses = append(c.found.losses, loss{what, how, err})
}

// file returns the path of an evidence file.
func (c *collector) file(name string) string { return filepath.Join(c.rec.Dir(), name) }

// lost records that something cannot be collected. It returns the cause if that is an error of the
// disk or somebody outside the trial. Otherwise the agent is to blame, since it can break its files
// and its container.
func (c *collector) lost(ctx context.Context, kind string, err error) error {
	how := unread // unread blames nobody
	defer func() { c.lose(kind, how, err) }()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.rec.Err() != nil:
		return c.rec.Err()
	case errors.Is(err, syscall.EIO):
		return err
	}
	if err := firstForeign(ctx, c.containers); err != nil {
		return err
	}
	how = uncollected
	return nil
}

// convertTranscript converts the agent's own transcript to waza's events. If the eval takes the
// final output from the transcript, it is the transcript's messages.
func (c *collector) convertTranscript(source transcript.Source) {
	messages, err := c.writeConverted(source)
	switch {
	case errors.Is(err, errUnread):
		c.lose(evidence.GapLines, unread, err)
	case err != nil:
		c.lose(evidence.GapTranscript, unread, err)
	}
	if c.plan.Agent.Output != plan.OutputTranscript {
		return
	}
	c.found.final.text = messages[:min(len(messages), maxFinal)]
	c.found.final.spans = secret.Kept(c.found.final.text, c.marksIn(source.From))
	silent := err == nil || errors.Is(err, errNoEvents) || errors.Is(err, errNoFile)
	switch {
	case len(messages) > maxFinal:
		c.lose(evidence.GapFinalOutput, overlong, nil)
	case messages == "" && silent:
		c.lose(evidence.GapFinalOutput, absent, errNoMessage)
	case err != nil:
		c.lose(evidence.GapFinalOutput, unread, err)
	}
}

var (
	errNoMessage = errors.New("its transcript has no message")
	errUnread    = errors.New("cannot be read")
)

// collectOutput reads the final output from a file of the workspace. It is absent if the workspace
// is complete and lacks the file.
func (c *collector) collectOutput(name string) {
	err := fileInTree(c.file(evidence.WorkspaceFile), name, func(in io.Reader) (err error) {
		c.found.final.text, err = readHead(in)
		return err
	})
	c.found.final.spans = secret.Kept(c.found.final.text, c.rec.Redacted()[evidence.WorkspaceFile].Marks.Spans(name))
	switch {
	case errors.Is(err, errTooLarge):
		c.lose(evidence.GapFinalOutput, overlong, nil)
	case errors.Is(err, errNoFile):
		c.lose(evidence.GapFinalOutput, absent, err)
	case err != nil:
		c.lose(evidence.GapFinalOutput, unread, err)
	}
}

// collectWorkspace writes workspace.tar, with secrets replaced. If the workspace cannot be
// collected, it leaves no file.
func (c *collector) collectWorkspace(ctx context.Context) error {
	file, err := c.rec.Tree(evidence.WorkspaceFile)
	if err != nil {
		return err
	}
	limit := maxTree(c.plan.Agent.Disk)
	if !defence.BoundedTrees {
		limit = max(limit, 160<<20) // limits the disk space that an attack test uses
	}
	err = c.sandbox.Collect(ctx, sandbox.Agent, sandbox.WorkspaceDir, &bounded.Head{W: file, Limit: limit, Fail: errTooLarge})
	if err = errors.Join(err, file.Close()); err != nil {
		if !defence.BoundedTrees {
			return err
		}
		return errors.Join(err, files.Remove(c.file(evidence.WorkspaceFile)))
	}
	return c.lookThrough()
}

// maxTree returns the maximum size of a workspace as a tar, in bytes, given its size limit.
// Sparse files grow in a tar: it may be five times as large, but at most 256 MiB larger.
func maxTree(disk int64) int64 { return disk + min(4*disk, 256<<20) }

// lookThrough records whether the agent replaced a link to mcp.json, left anything that was not
// collected, or closed its workspace. It returns an error if the tar is broken. Calls are recorded
// even if mcp.json was replaced.
func (c *collector) lookThrough() error {
	file, err := os.Open(c.file(evidence.WorkspaceFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	missed := ""
	for e, err := range tree.Entries(file) {
		if err != nil {
			return err
		}
		name := e.Path
		if e.Closed() {
			c.lose("", shut, fmt.Errorf("the agent closed its workspace, whose mode it set to %#o", e.Mode))
		}
		brought := slices.ContainsFunc(c.plan.Files, func(f plan.File) bool { return f.Path == name })
		if slices.Contains(eval.ClientConfigs(), name) && !brought {
			c.rec.Event(evidence.Event{Kind: "mcp_config", Where: sandbox.Agent, Message: "the agent replaced " + name})
		}
		if why := e.Cut(); why != "" && missed == "" {
			missed = fmt.Sprintf("what the agent left in %.100q is not collected: it %s", name, why)
		}
	}
	if missed != "" {
		c.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: missed})
		c.lose("", partial, errors.New(missed))
	}
	return wholeTar(file)
}

// wholeTar returns an error if a file does not end in the end mark of a tar.
func wholeTar(file *os.File) error {
	end := make([]byte, 1024)
	if _, err := file.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return errTorn
	}
	if _, err := io.ReadFull(file, end); err != nil {
		return err
	}
	if !slices.Equal(end, make([]byte, len(end))) {
		return errTorn
	}
	return nil
}

var errTorn = errors.New("the tar ends before its end mark")

// collectTranscript copies the transcript out of its directory. Secrets are removed before it
// is written to disk.
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
		_, rest := io.Copy(io.Discard, tree) // detect errors in the rest of the tar
		err = errors.Join(err, rest)
	}
	_ = tree.CloseWithError(errDone)
	cancel()
	if ended := <-collected; err == nil {
		err = ended
	}
	if errors.Is(err, errTooLarge) { // it may end within a secret
		err = errors.Join(err, files.RemoveAll(c.file(evidence.TranscriptFile)))
	}
	return err
}

var errDone = errors.New("nobody reads on")

func (c *collector) keepTranscript(in io.Reader) error {
	out, err := c.rec.Text(evidence.TranscriptFile, &bounded.Head{Limit: maxTranscript, Fail: errTooLarge})
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

var (
	errNoFile   = errors.New("no regular file of that name")
	errTooLarge = errors.New("is larger than its limit allows")
)

// fileInTree calls read with the content of a regular file of a tar. The tar is not trusted:
// the file may be far larger than the tar, because of holes.
func fileInTree(tarPath, name string, read func(io.Reader) error) error {
	file, err := os.Open(tarPath)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return readFileOf(file, name, read)
}

// readFileOf is like fileInTree for a stream.
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

// readHead reads a final output. It returns errTooLarge if that exceeds its limit.
func readHead(r io.Reader) (string, error) {
	head := &bounded.Head{Limit: maxFinal, Fail: errTooLarge}
	_, err := io.Copy(head, r)
	return string(head.Bytes()), err
}

// errNoEvents means that no line was converted to an event. Either the mapping is wrong or the
// agent reported nothing, so this does not prove that no tool was called.
var errNoEvents = errors.New("no line is an event")

// writeConverted converts the agent's transcript to waza's events and writes them. Lines that
// cannot be parsed are recorded. If such a line may have reported a tool's use, that is an
// error, as the transcript is incomplete. It returns the agent's messages, separated by
// newlines and truncated somewhat above maxFinal.
func (c *collector) writeConverted(source transcript.Source) (all string, err error) {
	file, err := c.rec.Raw(evidence.TranscriptFile)
	if err != nil {
		return "", err
	}
	out, events, offset := &bounded.Head{W: file, Limit: maxTranscript, Fail: errTooLarge}, 0, 0
	var messages strings.Builder
	marked := c.marksIn(source.From)
	err = c.readSource(source.From, func(in io.Reader) error {
		report, err := source.Read(in, func(e evidence.TranscriptEvent) error {
			if e.Type == evidence.AssistantMessage && e.Content != "" && messages.Len() <= maxFinal {
				if messages.Len() > 0 {
					messages.WriteByte('\n')
				}
				messages.WriteString(e.Content)
			}
			n, err := c.rec.WriteTranscript(out, e, offset, marked)
			offset += n
			return err
		})
		events = report.Events
		return errors.Join(c.recordReading(source, report), err)
	})
	if err == nil && events == 0 {
		err = errNoEvents
	}
	err = errors.Join(err, file.Close())
	if events == 0 {
		err = errors.Join(err, files.RemoveAll(c.file(evidence.TranscriptFile)))
	}
	return messages.String(), err
}

// outputFiles are the files of the agent's outputs, by the source of a transcript.
var outputFiles = map[string]string{"stdout": evidence.StdoutFile, "stderr": evidence.StderrFile}

// marksIn returns the spans in which secrets were replaced in the source of a transcript.
func (c *collector) marksIn(from string) []secret.Span {
	if name, isOutput := outputFiles[from]; isOutput {
		return c.rec.Redacted()[name].Marks.Spans("")
	}
	return c.rec.Redacted()[evidence.WorkspaceFile].Marks.Spans(path.Clean(from))
}

// readSource calls read with the agent's own transcript: stdout, stderr or a file of the
// workspace. It is read from disk, since it may be larger than memory.
func (c *collector) readSource(from string, read func(io.Reader) error) error {
	name, isOutput := outputFiles[from]
	if !isOutput {
		return fileInTree(c.file(evidence.WorkspaceFile), path.Clean(from), read)
	}
	file, err := os.Open(c.file(name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// recordReading records which lines of a transcript were skipped. It returns an error if one of
// them may have been an event.
func (c *collector) recordReading(source transcript.Source, r transcript.Report) error {
	event := func(kind, format string, args ...any) {
		message := fmt.Sprintf("transcript in %s: ", source.From) + fmt.Sprintf(format, args...)
		c.rec.Event(evidence.Event{Kind: kind, Where: sandbox.Agent, Message: message})
	}
	if r.Ignored > 0 {
		event("transcript_noise", "%s without a JSON object", text.Count(r.Ignored, "line"))
	}
	if r.Torn {
		event("gap", "the last line is cut off")
	}
	for _, why := range r.Why {
		event("gap", "%s", why)
	}
	if r.Unread > 0 {
		return fmt.Errorf("%s %w, the first: %s", text.Count(r.Unread, "line"), errUnread, r.Why[0])
	}
	return nil
}
