package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/mcpproxy"
	"github.com/waza-isolate/waza/runner/process"
)

const (
	// closeTimeout bounds draining the proxy and taking the sandbox down.
	closeTimeout = 90 * time.Second
	// collectTimeout bounds bringing files out of the agent's box.
	collectTimeout = 2 * time.Minute
	// stopGrace is what an agent gets between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// maxOutput is how many bytes of each of the agent's outputs are kept.
	maxOutput = 64 << 20
)

// trialRun is one trial under way.
type trialRun struct {
	run     *run
	plan    *Trial
	rec     *evidence.Recorder
	record  evidence.Trial
	sandbox Sandbox
	servers []mcpproxy.Server
	logs    []io.Closer
	proxy   *mcpproxy.Proxy
	serving sync.WaitGroup
}

// trial runs t in a sandbox of its own and leaves its evidence in dir. The error
// is only ever ours: that evidence could not be kept.
func (r *run) trial(ctx context.Context, t *Trial, dir string) error {
	rec, err := evidence.Create(dir, r.o.Secrets)
	if err != nil {
		return err
	}
	tr := &trialRun{run: r, plan: t, rec: rec, record: newRecord(t)}
	if err := tr.live(ctx); err != nil {
		tr.blame(evidence.ClassInfra, err.Error())
	}
	tr.record.Ended = time.Now().UTC()
	return errors.Join(rec.Close(), evidence.Dir(dir).WriteTrial(tr.redacted()))
}

// live is a trial's life. What fails before the agent starts, and whatever fails
// on our side, is returned; what the agent does is in the record.
func (tr *trialRun) live(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, tr.end(ctx)) }()
	if err := tr.prepare(ctx); err != nil {
		return err
	}
	tr.report(PhaseAgent)
	if err := tr.runAgent(ctx); err != nil {
		return err
	}
	tr.report(PhaseCollect)
	if err := tr.drain(ctx); err != nil {
		return err
	}
	tr.collect(ctx)
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	if tr.run.o.Hold != nil {
		return tr.hold(ctx)
	}
	return nil
}

// prepare does everything up to the agent's start.
func (tr *trialRun) prepare(ctx context.Context) (err error) {
	tr.report(PhaseStart)
	tr.sandbox, err = tr.run.backend.Open(ctx, tr.plan, tr.rec.Event)
	if err != nil {
		return err
	}
	guarantees := tr.sandbox.Guarantees()
	tr.record.Guarantees = &guarantees
	tr.report(PhaseProbe)
	if err := tr.makeServers(); err != nil {
		return err
	}
	if err := tr.fillServers(ctx); err != nil {
		return err
	}
	if err := tr.probe(ctx); err != nil {
		return err
	}
	if err := tr.serve(ctx, tr.rec); err != nil {
		return err
	}
	return tr.fillWorkspace(ctx)
}

// serve puts a proxy where the agent finds its servers. What crosses it goes to
// rec.
func (tr *trialRun) serve(ctx context.Context, rec mcpproxy.Recorder) error {
	proxy, err := mcpproxy.New(rec, mcpproxy.Limits{}, tr.servers...)
	if err != nil {
		return err
	}
	tr.proxy = proxy
	ctx = context.WithoutCancel(ctx)
	ln, err := tr.sandbox.Listen(ctx, HTTPPort)
	if err != nil {
		return err
	}
	tr.serving.Go(func() {
		if err := proxy.Serve(ctx, ln); err != nil && !errors.Is(err, net.ErrClosed) {
			rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
		}
	})
	return nil
}

// fillWorkspace puts the task's files into the workspace, keeps them as
// evidence, and adds the links to mcp.json.
func (tr *trialRun) fillWorkspace(ctx context.Context) error {
	var tree, links bytes.Buffer
	if err := errors.Join(writeTree(&tree, tr.plan.Files), writeLinks(&links, tr.plan.Files)); err != nil {
		return err
	}
	before, err := tr.rec.Raw(evidence.BeforeFile)
	if err != nil {
		return err
	}
	_, err = before.Write(tree.Bytes())
	if err := errors.Join(err, before.Close()); err != nil {
		return err
	}
	if err := tr.sandbox.Put(ctx, AgentBox, WorkspaceDir, &tree); err != nil {
		return err
	}
	return tr.sandbox.Put(ctx, AgentBox, WorkspaceDir, &links)
}

// runAgent runs the agent to its end or its time limit.
func (tr *trialRun) runAgent(ctx context.Context) error {
	l, err := launchOf(tr.plan)
	if err != nil {
		return err
	}
	files := l.files
	if tr.plan.Agent.Transcript != "" {
		files = append(files, fileOf(tr.plan.Agent.Transcript, ""))
	}
	var tree bytes.Buffer
	if err := writeTree(&tree, files); err != nil {
		return err
	}
	if err := tr.sandbox.Put(ctx, AgentBox, "/", &tree); err != nil {
		return err
	}
	tr.record.AgentStart = time.Now().UTC()
	agent, err := tr.sandbox.Start(ctx, AgentBox, l.process)
	if err != nil {
		tr.record.AgentStart = time.Time{}
		return fmt.Errorf("agent: %w", err)
	}
	return tr.attend(ctx, agent, l.stdin)
}

// attend feeds and records the agent while it runs.
func (tr *trialRun) attend(ctx context.Context, agent process.Process, stdin []byte) error {
	stdout := &head{limit: maxOutput}
	var outputs sync.WaitGroup
	for name, from := range map[string]io.Reader{evidence.StdoutFile: agent.Stdout(), evidence.StderrFile: agent.Stderr()} {
		file, err := tr.rec.Text(name)
		if err != nil {
			return errors.Join(err, agent.Signal(process.Kill))
		}
		to := io.Writer(&capped{w: file, left: maxOutput})
		if name == evidence.StdoutFile {
			to = io.MultiWriter(to, stdout)
		}
		outputs.Go(func() {
			_, _ = io.Copy(to, from)
			_ = file.Close()
		})
	}
	go func() {
		_, _ = agent.Stdin().Write(stdin)
		_ = agent.Stdin().Close()
	}()
	limit, cancel := context.WithTimeout(ctx, tr.plan.Timeout)
	defer cancel()
	stop := context.AfterFunc(limit, func() { stopAgent(agent) })
	exit, err := agent.Wait()
	stop()
	outputs.Wait()
	tr.record.AgentEnd = time.Now().UTC()
	tr.record.FinalOutput = stdout.String()
	return tr.judgeExit(ctx, limit, exit, err)
}

// stopAgent asks, and then does not ask.
func stopAgent(agent process.Process) {
	_ = agent.Signal(process.Terminate)
	time.AfterFunc(stopGrace, func() { _ = agent.Signal(process.Kill) })
}

// judgeExit decides whose end it was. The agent's box breaking under it is the
// agent's doing: no agent may choose not to be graded.
func (tr *trialRun) judgeExit(ctx, limit context.Context, exit process.Exit, err error) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case err != nil:
		tr.blame(evidence.ClassAgentError, "the agent broke its container's guest: "+err.Error())
		return nil
	}
	tr.record.ExitCode, tr.record.Signal = &exit.Code, exit.Signal
	switch {
	case limit.Err() != nil:
		tr.blame(evidence.ClassTimeout, fmt.Sprintf("the agent ran longer than %s", tr.plan.Timeout))
	case exit.Signal != "":
		tr.blame(evidence.ClassAgentError, "the agent was ended by "+exit.Signal)
	case exit.Code != 0:
		tr.blame(evidence.ClassAgentError, fmt.Sprintf("the agent exited with code %d", exit.Code))
	}
	return nil
}

func interrupted(ctx context.Context) error { return fmt.Errorf("interrupted: %w", context.Cause(ctx)) }

// blame sets the outcome class, if none is set yet.
func (tr *trialRun) blame(class evidence.Class, reason string) {
	if tr.record.Class == "" {
		tr.record.Class, tr.record.Reason = class, reason
	}
}

// drain lets every server end and every answer be recorded.
func (tr *trialRun) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if tr.proxy == nil {
		return nil
	}
	err := tr.proxy.Close(ctx)
	tr.serving.Wait()
	tr.proxy = nil
	return err
}

// end takes everything down, also where the trial never got far.
func (tr *trialRun) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	errs := []error{tr.drain(ctx)}
	if tr.sandbox != nil {
		errs = append(errs, tr.sandbox.Close(ctx))
	}
	for _, log := range tr.logs {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

func (tr *trialRun) report(phase Phase) {
	tr.run.o.Progress(Update{Task: tr.plan.Task, Number: tr.plan.Number, Phase: phase})
}

func newRecord(t *Trial) evidence.Trial {
	servers := make([]evidence.ServerRecord, 0, len(t.Servers))
	for _, s := range t.Servers {
		servers = append(servers, evidence.ServerRecord{Name: s.Name, Transport: "stdio", Image: s.Image})
	}
	return evidence.Trial{
		Run: t.Run, Task: t.Task, TaskName: t.TaskName, Number: t.Number, Attempt: 1,
		Prompt: t.Agent.Prompt, Executor: t.Agent.Executor, Servers: servers, Graders: t.Graders,
		Plan: t.JSON(), Started: time.Now().UTC(),
	}
}

// redacted is the record as it may be written.
func (tr *trialRun) redacted() evidence.Trial {
	record := tr.record
	record.FinalOutput = tr.run.o.Secrets.String(record.FinalOutput)
	record.Reason = tr.run.o.Secrets.String(record.Reason)
	for i, gap := range record.Gaps {
		record.Gaps[i] = tr.run.o.Secrets.String(gap)
	}
	return record
}

// head keeps the first bytes of what is written to it.
type head struct {
	bytes.Buffer
	limit int
}

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.limit-h.Len())])
	return len(p), nil
}

// capped passes the first bytes on and drops the rest.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
