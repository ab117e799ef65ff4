package runner

import (
	"archive/tar"
	"bytes"
	"context"
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

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcpconfig"
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

// runPrograms runs what graders ask for over the workspace as the agent left it: each
// in a sandbox of its own, which has nothing of the trial's. What the programs do is
// in the steps; what fails on our side is returned.
func (tr *trialRun) runPrograms(ctx context.Context) error {
	asks := tr.asks(evidence.StepProgram)
	if len(asks) > 0 && tr.o.Hold == nil {
		if err := tr.end(ctx); err != nil { // its room is for them
			return err
		}
	}
	for i, ask := range asks {
		answer, err := tr.runProgram(ctx, i+1, ask.Grader, ask.What.(evidence.ProgramAsk))
		if err != nil && (ctx.Err() != nil || !errors.Is(err, errUnanswered)) {
			return fmt.Errorf("grader %q: %w", ask.Grader, err)
		}
		if err := tr.step(ask, answer, err); err != nil {
			return err
		}
	}
	return nil
}

// errUnanswered is the class of what leaves a step without an answer, and is nobody's
// fault that another attempt would mend.
var errUnanswered = errors.New("no answer")

// asks is what the trial's graders have done, of the kinds.
func (tr *trialRun) asks(kinds ...string) []grading.Ask {
	var wanted []grading.Ask
	for _, ask := range grading.Asks(tr.plan.AllGraders()) {
		if slices.Contains(kinds, ask.Kind) {
			wanted = append(wanted, ask)
		}
	}
	return wanted
}

// step records what came of an ask: an answer, or why there is none.
func (tr *trialRun) step(ask grading.Ask, answer any, unanswered error) error {
	s := evidence.Step{Grader: ask.Grader, Kind: ask.Kind}
	var err error
	if s.Ask, err = ask.Raw(); err != nil {
		return err
	}
	if unanswered != nil {
		s.Error = unanswered.Error()
	} else if s.Answer, err = json.Marshal(answer); err != nil {
		return err
	}
	return tr.rec.Step(s)
}

// runProgram runs one program. An error of class errUnanswered says why it could not.
func (tr *trialRun) runProgram(ctx context.Context, number int, grader string, ask evidence.ProgramAsk) (_ *evidence.ProgramAnswer, err error) {
	if missing, lost := tr.record.Lost(evidence.GapWorkspace); lost {
		return nil, fmt.Errorf("%w: there is no workspace to look at: %s", errUnanswered, missing)
	}
	box, ok := tr.plan.GraderBoxOf(grader)
	if !ok {
		return nil, fmt.Errorf("%w: the plan has no box for it", errUnanswered)
	}
	sb, err := tr.o.Backend.Open(ctx, tr.programTrial(number, box), func(e evidence.Event) {
		e.Where = "grader/" + grader
		tr.rec.Event(e)
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
	answer := &evidence.ProgramAnswer{Image: box.Image}
	spec, stdin, err := tr.prepareProgram(ctx, sb, box, ask)
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
		if file, err := tr.rec.Raw(evidence.WorkspaceFile); err == nil {
			_ = errors.Join(sb.Collect(ctx, sandbox.Agent, sandbox.WorkspaceDir, file), file.Close())
		}
	}
	return answer, tr.judgeProgram(ctx, sb, program, answer)
}

// programTrial is a sandbox with the program's box and nothing else. A task's name
// cannot end in a dot, so it is nobody else's.
func (tr *trialRun) programTrial(number int, box plan.GraderBox) *plan.Trial {
	task := tr.plan.Task
	if tr.turn > 0 {
		task += fmt.Sprintf(".turn%d", tr.turn)
	}
	t := &plan.Trial{
		Run: tr.plan.Run, Task: fmt.Sprintf("%s.grader%d.", task, number), Number: tr.plan.Number, Attempt: tr.plan.Attempt,
		Network: plan.NetworkNone, Runtime: tr.plan.Runtime, Workspace: tr.plan.Workspace,
		Agent: plan.Agent{Box: box.Box}, MCPJSON: string(mcpconfig.Render(nil)),
	}
	if tr.plan.Isolated() {
		t.Network = "airtight"
	}
	if !defence.NoNetworkForPrograms {
		t.Network = "bridge"
	}
	return t
}

// prepareProgram fills a program's box, and says what to start in it.
func (tr *trialRun) prepareProgram(ctx context.Context, sb sandbox.Sandbox, box plan.GraderBox, ask evidence.ProgramAsk) (spec process.Spec, stdin []byte, err error) {
	if err := tr.putFrozen(ctx, sb); err != nil {
		return spec, nil, fmt.Errorf("the workspace: %w", err)
	}
	var files bytes.Buffer
	if err := writeProgramFiles(&files, box.Files); err != nil {
		return spec, nil, err
	}
	if err := sb.Put(ctx, sandbox.Agent, sandbox.HomeDir, &files); err != nil {
		return spec, nil, err
	}
	layout := sb.Layout(sandbox.Agent)
	spec = process.Spec{Dir: layout.At(programDir), Env: []string{"WAZA_WORKSPACE_DIR=" + layout.Workspace}}
	if layout.Home != "" {
		spec.Env = append(spec.Env, "HOME="+layout.Home)
	}
	if ask.Language != "" {
		spec.Args = append(slices.Clone(box.Command), assertionArgs(ask.Language)...)
		stdin, err = tr.assertionsOver(ask.Assertions, layout.Workspace)
		return spec, stdin, err
	}
	spec.Args = append([]string{layout.At(ask.Command)}, ask.Args...)
	return spec, []byte(tr.redacted().FinalOutput), nil
}

// putFrozen puts the workspace as it was collected into a program's box.
func (tr *trialRun) putFrozen(ctx context.Context, sb sandbox.Sandbox) error {
	file, err := os.Open(tr.file(evidence.WorkspaceFile))
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

// unlessForeign is an error in a program's box: of class errUnanswered, unless
// somebody else ended the box.
func unlessForeign(ctx context.Context, sb sandbox.Sandbox, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := foreignFault(sandbox.Agent, sb.Ended(ctx, sandbox.Agent)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// judgeProgram says how a program ended: by itself, at a limit, or with its box.
func (tr *trialRun) judgeProgram(ctx context.Context, sb sandbox.Sandbox, p *attended, answer *evidence.ProgramAnswer) error {
	ending := sb.Ended(ctx, sandbox.Agent)
	if err := foreignFault(sandbox.Agent, ending); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	if used, err := sb.Usage(limited, sandbox.Agent); err == nil {
		for _, b := range used.Breaches() {
			answer.Breaches = append(answer.Breaches, evidence.Breach(b))
		}
	}
	answer.Broke = ending.Message
	if !isClosed(p.ended) {
		return nil
	}
	if p.err != nil && ending.Message == "" {
		answer.Broke = p.err.Error()
	}
	if p.err == nil && p.exit.Signal != "" {
		answer.Signal = p.exit.Signal
	} else if p.err == nil {
		answer.ExitCode = &p.exit.Code
	}
	answer.Stdout, answer.Stderr = outputOf(p.stdout), outputOf(p.stderr)
	return nil
}
