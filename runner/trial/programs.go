package trial

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// programDir is where programs of graders start, with their files. It is not the
	// workspace, whose files many a program would take for its own.
	programDir = sandbox.HomeDir + "/grader"
	// maxSaid is how many bytes are kept of each output of a grader's program, and
	// maxResults of the script's that evaluates assertions.
	maxSaid    = 64 << 10
	maxResults = 1 << 20
)

// programs is the phase in which graders run programs.
type programs struct {
	*recording
	makeRoom func(context.Context) error // is called before the first; nil where there is nothing to do
}

// runAll runs what graders ask for over the workspace as the agent left it: each
// in a sandbox of its own, which has nothing of the trial's. What the programs do is
// in the steps; what fails on our side is returned.
func (p *programs) runAll(ctx context.Context) error {
	asks := p.asks(evidence.StepProgram)
	if len(asks) > 0 && p.makeRoom != nil {
		if err := p.makeRoom(ctx); err != nil {
			return err
		}
	}
	for i, ask := range asks {
		answer, err := p.runProgram(ctx, i+1, ask.Grader, ask.What.(evidence.ProgramAsk))
		if err != nil && (ctx.Err() != nil || !errors.Is(err, errUnanswered)) {
			return fmt.Errorf("grader %q: %w", ask.Grader, err)
		}
		if err := p.step(ask, answer, err); err != nil {
			return err
		}
	}
	return nil
}

// errUnanswered is the class of what leaves a step without an answer, and is nobody's
// fault that another attempt would mend.
var errUnanswered = errors.New("no answer")

// runProgram runs one program. An error of class errUnanswered says why it could not.
func (p *programs) runProgram(ctx context.Context, number int, grader string, ask evidence.ProgramAsk) (_ *evidence.ProgramAnswer, err error) {
	if missing, lost := p.record.Lost(evidence.GapWorkspace); lost {
		return nil, fmt.Errorf("%w: there is no workspace to look at: %s", errUnanswered, missing)
	}
	container, ok := p.plan.GraderContainerOf(grader)
	if !ok {
		return nil, fmt.Errorf("%w: the plan has no container for it", errUnanswered)
	}
	sb, err := p.o.Backend.Open(ctx, p.programTrial(number, container), func(e evidence.Event) {
		e.Where = "grader/" + grader
		p.rec.Event(e)
	})
	if err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	var program *attended
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, sb.Close(closing), program.await(closing))
	}()
	answer := &evidence.ProgramAnswer{Image: container.Image}
	spec, stdin, err := p.prepareProgram(ctx, sb, container, ask)
	if err != nil {
		return nil, unlessForeign(ctx, sb, err)
	}
	started, err := sb.Start(ctx, sandbox.Agent, spec)
	if err != nil {
		if err := unlessForeign(ctx, sb, err); !errors.Is(err, errUnanswered) {
			return nil, err
		}
		answer.Unfound = err.Error()
		return answer, nil
	}
	kept := int64(maxSaid)
	if ask.Language != "" {
		kept = maxResults
	}
	program = attendProgram(started, stdin, kept)
	answer.TimedOut = !program.within(ctx, time.Duration(ask.Seconds)*time.Second)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !defence.FrozenWorkspace {
		if file, err := p.rec.Raw(evidence.WorkspaceFile); err == nil {
			_ = errors.Join(sb.Collect(ctx, sandbox.Agent, sandbox.WorkspaceDir, file), file.Close())
		}
	}
	return answer, p.judgeProgram(ctx, sb, program, answer)
}

// programTrial is a sandbox with the program's container and nothing else. A task's name
// cannot end in a dot, so it is nobody else's.
func (p *programs) programTrial(number int, container plan.GraderContainer) *plan.Trial {
	task := p.plan.Task
	if p.turn > 0 {
		task += fmt.Sprintf(".turn%d", p.turn)
	}
	t := &plan.Trial{
		Run: p.plan.Run, Task: fmt.Sprintf("%s.grader%d.", task, number), Number: p.plan.Number, Attempt: p.plan.Attempt,
		Network: plan.NetworkNone, Runtime: p.plan.Runtime, Workspace: p.plan.Workspace,
		Agent: plan.Agent{Container: container.Container}, MCPJSON: string(mcpconfig.Render(nil)),
	}
	if p.plan.Isolated() {
		t.Network = "airtight"
	}
	if !defence.NoNetworkForPrograms {
		t.Network = "bridge"
	}
	return t
}

// prepareProgram fills a program's container, and says what to start in it.
func (p *programs) prepareProgram(ctx context.Context, sb sandbox.Sandbox, container plan.GraderContainer, ask evidence.ProgramAsk) (spec process.Spec, stdin []byte, err error) {
	if err := p.putFrozen(ctx, sb); err != nil {
		return spec, nil, fmt.Errorf("the workspace: %w", err)
	}
	var files bytes.Buffer
	if err := writeProgramFiles(&files, container.Files); err != nil {
		return spec, nil, err
	}
	if err := sb.Put(ctx, sandbox.Agent, sandbox.HomeDir, &files); err != nil {
		return spec, nil, err
	}
	layout := sandbox.LayoutOf(sb, sandbox.Agent)
	spec = process.Spec{Dir: layout.At(programDir), Env: []string{"WAZA_WORKSPACE_DIR=" + layout.Workspace}}
	if layout.Home != "" {
		spec.Env = append(spec.Env, "HOME="+layout.Home)
	}
	if ask.Language != "" {
		spec.Args = append(slices.Clone(container.Command), assertionArgs(ask.Language)...)
		stdin, err = p.assertionsOver(ask.Assertions, layout.Workspace)
		return spec, stdin, err
	}
	spec.Args = append([]string{layout.At(ask.Command)}, ask.Args...)
	return spec, []byte(p.redacted().FinalOutput), nil
}

// putFrozen puts the workspace as it was collected into a program's container.
func (p *programs) putFrozen(ctx context.Context, sb sandbox.Sandbox) error {
	file, err := os.Open(p.file(evidence.WorkspaceFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(copyPlain(w, file)) }()
	err = sb.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, r)
	_ = r.CloseWithError(err)
	return err
}

// copyPlain copies what of a hostile tree can be put: files, directories and links in
// places of the workspace.
func copyPlain(w io.Writer, r io.Reader) error {
	out := tar.NewWriter(w)
	for e, err := range tree.Entries(r) {
		if err != nil {
			return err
		}
		if e.Kind() == tree.Special {
			continue
		}
		if defence.ConfinedTrees && !filepath.IsLocal(e.Name) || strings.ContainsRune(e.Name, 0) {
			continue
		}
		if err := out.WriteHeader(e.Header); err != nil {
			return err
		}
		if _, err := io.Copy(out, e.Content); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeProgramFiles writes the program's directory, and the files in it.
func writeProgramFiles(w io.Writer, files []plan.File) error {
	dir := path.Base(programDir)
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
		return err
	}
	for _, f := range files {
		f.Path = path.Join(dir, f.Path)
		if err := writeFile(out, f); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return out.Close()
}

// unlessForeign is an error in a program's container: of class errUnanswered, unless
// somebody else ended the container.
func unlessForeign(ctx context.Context, sb sandbox.Sandbox, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := foreignFault(sandbox.Agent, sandbox.EndedOf(ctx, sb, sandbox.Agent)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// judgeProgram says how a program ended: by itself, at a limit, or with its container.
func (p *programs) judgeProgram(ctx context.Context, sb sandbox.Sandbox, program *attended, answer *evidence.ProgramAnswer) error {
	ending := sandbox.EndedOf(ctx, sb, sandbox.Agent)
	if err := foreignFault(sandbox.Agent, ending); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	if used, err := sandbox.UsageOf(limited, sb, sandbox.Agent); err == nil {
		for _, b := range used.Breaches() {
			answer.Breaches = append(answer.Breaches, evidence.Breach(b))
		}
	}
	answer.Broke = ending.Message
	if !isClosed(program.ended) {
		return nil
	}
	if program.err != nil && ending.Message == "" {
		answer.Broke = program.err.Error()
	}
	if program.err == nil && program.exit.Signal != "" {
		answer.Signal = program.exit.Signal
	} else if program.err == nil {
		answer.ExitCode = new(program.exit.Code)
	}
	answer.Stdout, answer.Stderr = outputOf(program.stdout), outputOf(program.stderr)
	return nil
}

// attended is a program under way: it is fed, and the beginning of what it says is
// kept.
type attended struct {
	program        process.Process
	stdout, stderr *bounded.Head
	ended          chan struct{}

	// Set before ended is closed.
	exit process.Exit
	err  error
}

func attendProgram(p process.Process, stdin []byte, kept int64) *attended {
	a := &attended{program: p, stdout: &bounded.Head{Limit: kept}, stderr: &bounded.Head{Limit: kept}, ended: make(chan struct{})}
	go a.see(stdin)
	return a
}

func (a *attended) see(stdin []byte) {
	defer close(a.ended)
	a.exit, a.err = process.Attend(a.program, stdin, a.stdout, a.stderr)
}

// within waits for the program's end, and ends it at the limit or with ctx. It says
// whether it ended by itself.
func (a *attended) within(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-a.ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = a.program.Signal(process.Kill)
	ended := time.NewTimer(killGrace)
	defer ended.Stop()
	select {
	case <-a.ended:
	case <-ended.C:
	}
	return false
}

// await waits until a program's output has ended with its container. A nil one has none.
func (a *attended) await(ctx context.Context) error {
	if a == nil {
		return nil
	}
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return errors.New("the output of a grader's program did not end with its sandbox")
	}
}

func outputOf(said *bounded.Head) evidence.Output {
	return evidence.Output{Text: said.String(), Cut: said.Over()}
}

// The scripts that evaluate assertions. They are arguments of their interpreters,
// so that no file is theirs that the workspace could hold too.
var (
	//go:embed assertions.py
	pythonScript string
	//go:embed assertions.js
	javascriptScript string
)

// assertionArgs have the interpreter of a language evaluate the assertions that it reads
// from stdin. Python's -I leaves the working directory, the environment and the user's
// packages out of what is imported.
func assertionArgs(language string) []string {
	if language == grading.JavaScript {
		return []string{"--eval", javascriptScript}
	}
	return []string{"-I", "-c", pythonScript}
}

// assertionInput is what the scripts read.
type assertionInput struct {
	Variables  assertionVariables `json:"variables"`
	Assertions []string           `json:"assertions"`
}

// assertionVariables are what assertions are over, as waza names them.
type assertionVariables struct {
	Output     string                    `json:"output"`
	Outcome    assertionOutcome          `json:"outcome"`
	Transcript []results.TranscriptEvent `json:"transcript"`
	ToolCalls  []assertionCall           `json:"tool_calls"`
	Errors     []string                  `json:"errors"`
	DurationMS int64                     `json:"duration_ms"`
	Workspace  string                    `json:"workspace"`
}

// assertionOutcome is how the agent ended.
type assertionOutcome struct {
	Class    evidence.Class  `json:"class"` // timeout, agent_error or empty
	Reason   evidence.Reason `json:"reason"`
	ExitCode *int            `json:"exit_code"`
}

// assertionCall is a captured call, or a builtin tool that the transcript tells of.
type assertionCall struct {
	Name      string              `json:"name"`
	Source    string              `json:"source"`
	Server    string              `json:"mcp_server"`
	Arguments json.RawMessage     `json:"arguments"`
	Result    *results.ToolResult `json:"result"`
	Success   bool                `json:"success"`
}

// assertionsOver makes the input of the assertions: nothing of it but the output is
// the trial's own memory, so that evidence tells what they saw.
func (p *programs) assertionsOver(assertions []string, workspace string) ([]byte, error) {
	dir := evidence.Dir(p.rec.Dir())
	captured, err := capture.Calls(dir.Frames())
	if err != nil {
		return nil, err
	}
	transcript, err := dir.Transcript()
	if err != nil {
		return nil, err
	}
	record := p.redacted()
	v := assertionVariables{
		Output: record.FinalOutput, Workspace: workspace, Transcript: []results.TranscriptEvent{},
		Outcome:   assertionOutcome{Class: record.Class, Reason: record.Reason, ExitCode: record.ExitCode},
		ToolCalls: []assertionCall{}, Errors: []string{},
	}
	if took, known := record.AgentTime(); known {
		v.DurationMS = took.Milliseconds()
	}
	for _, e := range transcript {
		v.Transcript = append(v.Transcript, results.Reported(e))
	}
	if record.Message != "" {
		v.Errors = append(v.Errors, record.Message)
	}
	var servers []string
	for _, s := range p.plan.Servers {
		servers = append(servers, s.Name)
	}
	paired := capture.Pair(capture.Tools(servers, captured), captured.Calls, transcript)
	if err := paired.Err(); err != nil {
		return nil, err
	}
	for _, use := range paired.Uses() {
		call, err := assertionCallOf(use)
		if err != nil {
			return nil, err
		}
		v.ToolCalls = append(v.ToolCalls, call)
	}
	return json.Marshal(assertionInput{v, assertions})
}

func assertionCallOf(use capture.Use) (assertionCall, error) {
	result, err := results.ResultOf(use)
	call := assertionCall{Name: use.FullName(), Source: use.Source, Result: result, Success: use.OK}
	if use.Call != nil {
		call.Server = use.Call.Server
	}
	call.Arguments = assertionArguments(use.Arguments)
	return call, err
}

// assertionArguments are arguments with those that waza knows by name, which are empty
// texts where they are not given: expressions are written against that.
func assertionArguments(given json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if len(given) > 0 && json.Unmarshal(given, &all) != nil {
		return given // no object
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for _, name := range []string{"path", "file_text", "command", "description", "skill"} {
		if _, ok := all[name]; !ok {
			all[name] = json.RawMessage(`""`)
		}
	}
	filled, err := json.Marshal(all)
	if err != nil {
		return given
	}
	return filled
}
