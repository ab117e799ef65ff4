package trial

import (
	"archive/tar"
	"cmp"
	"context"
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
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// programDir is the working directory of graders' programs, with their files. It is not the
	// workspace, because many programs would load files from there.
	programDir = sandbox.HomeDir + "/grader"
	// maxProgramOutput is how many bytes of each output of a program are kept, and maxResults how many
	// of the script that evaluates assertions.
	maxProgramOutput = 64 << 10
	maxResults       = 1 << 20
)

// programs runs graders' programs.
type programs struct {
	backend sandbox.Opener
	plan    *plan.Trial
	rec     *evidence.Recorder
	secrets *secret.Set
	task    string         // used in the names of sandboxes: the trial's task, or a checkpoint of it
	trial   evidence.Trial // as it would be concluded now
	// captured returns the calls on record.
	captured func() (capture.Result, error)
	unfit    []failure // errors of copying what the agent left to a program
}

// asksPrograms reports whether graders of a trial ask for programs.
func asksPrograms(t *plan.Trial) bool { return len(asksOf(t, evidence.StepProgram)) > 0 }

// runPrograms runs the programs that graders ask for. They see the trial as it would be concluded
// now. It returns the errors of copying to a program what the agent left.
func runPrograms(ctx context.Context, s *stage, all everything, task string, calls func() (capture.Result, error)) (unfit []failure, err error) {
	asks := asksOf(s.plan, evidence.StepProgram)
	if len(asks) == 0 {
		return nil, nil
	}
	p := &programs{
		backend: s.o.Backend, plan: s.plan, rec: s.log.Recorder, secrets: s.o.Secrets,
		task: task, trial: all.redacted(conclude(all), s.log.Recorder), captured: calls,
	}
	err = p.runAll(ctx, asks)
	return p.unfit, err
}

// runAll runs graders' programs on the workspace that the agent left, each in its own sandbox
// with nothing else of the trial. Results are recorded as steps; it returns only failures of
// ours.
func (p *programs) runAll(ctx context.Context, asks []grading.Ask) error {
	for i, ask := range asks {
		answer, err := p.runProgram(ctx, i+1, ask.Grader, ask.What.(evidence.ProgramAsk))
		if err != nil && (ctx.Err() != nil || !errors.Is(err, errUnanswered)) {
			return fmt.Errorf("grader %q: %w", ask.Grader, err)
		}
		if err := recordStep(p.rec, ask, answer, err); err != nil {
			return err
		}
	}
	return nil
}

// errUnanswered is wrapped by errors that leave a step without an answer and that retrying the
// trial would not fix.
var errUnanswered = errors.New("no answer")

// errUnfit is wrapped by errors of copying the workspace into a program's container. It may be too
// large for it, as holes are filled in.
var errUnfit = errors.New("the workspace")

// runProgram runs one program. If that is not possible, the error wraps errUnanswered.
func (p *programs) runProgram(ctx context.Context, number int, grader string, ask evidence.ProgramAsk) (_ *evidence.ProgramAnswer, err error) {
	if missing, lost := p.trial.Lost(evidence.GapWorkspace); lost {
		return nil, fmt.Errorf("%w: there is no workspace to look at: %s", errUnanswered, missing)
	}
	container, ok := p.plan.GraderContainerOf(grader)
	if !ok {
		return nil, fmt.Errorf("%w: the plan has no container for it", errUnanswered)
	}
	sb, err := p.backend.Open(ctx, p.plan.ProgramSpec(p.task, number, container), func(e evidence.Event) {
		e.Where = "grader/" + grader
		p.rec.Event(e)
	})
	if err != nil {
		return nil, withReason(evidence.ReasonSandbox, err)
	}
	down := teardown{parts: []part{{stop: func(ctx context.Context) error { return closeSandbox(ctx, sb) }}}}
	defer func() { err = errors.Join(err, down.run(ctx)) }()
	answer := &evidence.ProgramAnswer{Image: container.Image}
	spec, stdin, err := p.fillContainer(ctx, sb, container, ask)
	if err != nil {
		err = unlessForeign(ctx, sb, err)
		if errors.Is(err, errUnfit) && errors.Is(err, errUnanswered) && defence.BlamedLosses {
			p.unfit = append(p.unfit, failure{p.rec.Now(), fmt.Errorf("grader %q cannot be given what the agent left: %w", grader, err)})
		}
		return nil, err
	}
	started, err := sb.Start(ctx, sandbox.Agent, spec)
	if err != nil {
		if err := unlessForeign(ctx, sb, err); !errors.Is(err, errUnanswered) {
			return nil, err
		}
		answer.NotStarted = err.Error()
		return answer, nil
	}
	kept := int64(maxProgramOutput)
	if ask.Language != "" {
		kept = maxResults
	}
	program := communicate(started, stdin, kept, p.secrets)
	down.add(part{await: func(context.Context) error { return outputEnd(program.Ended(), "the output of a grader's program") }})
	answer.TimedOut = !program.within(ctx, time.Duration(ask.Seconds)*time.Second)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !defence.FrozenWorkspace {
		if file, err := p.rec.Raw(evidence.WorkspaceFile); err == nil {
			_ = errors.Join(sb.Collect(ctx, sandbox.Agent, sandbox.WorkspaceDir, file), file.Close())
		}
	}
	return answer, p.recordEnd(ctx, sb, program, answer)
}

// fillContainer fills a program's container, and returns the process to start in it.
func (p *programs) fillContainer(ctx context.Context, sb sandbox.Sandbox, container plan.GraderContainer, ask evidence.ProgramAsk) (spec process.Spec, stdin []byte, err error) {
	if err := p.putFrozen(ctx, sb); err != nil {
		return spec, nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	err = putTree(ctx, sb, sandbox.Agent, sandbox.HomeDir, func(out *tar.Writer) error { return writeProgramFiles(out, container.Files) })
	if err != nil {
		return spec, nil, err
	}
	layout := sb.Layout(sandbox.Agent)
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
	return spec, []byte(p.trial.FinalOutput), nil
}

// putFrozen copies the collected workspace into a program's container.
func (p *programs) putFrozen(ctx context.Context, sb sandbox.Sandbox) error {
	file, err := os.Open(filepath.Join(p.rec.Dir(), evidence.WorkspaceFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return putTree(ctx, sb, sandbox.Agent, sandbox.WorkspaceDir, func(out *tar.Writer) error { return copyPlain(out, file, p.plan.Isolated()) })
}

// copyPlain copies files, directories and links of the workspace from an untrusted tar, if confined only those
// links that isConfined accepts, and skips other entries.
func copyPlain(out *tar.Writer, r io.Reader, confined bool) error {
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
		if defence.ConfinedLinks && confined && e.Kind() == tree.Link && !isConfined(e.Name, e.Linkname) {
			continue
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

// confines are the workspace and the directories of an image's programs, to which environments of Python and
// the like have links.
var confines = []string{sandbox.WorkspaceDir + "/", "/bin/", "/lib/", "/lib64/", "/nix/", "/opt/", "/sbin/", "/usr/"}

// isConfined reports whether a link of the workspace leads to a path in it or to programs of the image. Any
// other could give a program its own files for what the agent should have left, as /proc/self/cwd does.
func isConfined(name, target string) bool {
	if tree.Winds(target) {
		return false
	}
	if !path.IsAbs(target) {
		target = path.Join(sandbox.WorkspaceDir, path.Dir(name), target)
	}
	target = path.Clean(target) + "/"
	return slices.ContainsFunc(confines, func(dir string) bool { return strings.HasPrefix(target, dir) })
}

// writeProgramFiles writes the program's directory and the files in it.
func writeProgramFiles(out *tar.Writer, files []plan.File) error {
	dir := path.Base(programDir)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
		return err
	}
	files = slices.Clone(files)
	for i := range files {
		files[i].Path = path.Join(dir, files[i].Path)
	}
	return writeFiles(out, files)
}

// unlessForeign wraps err in errUnanswered, unless somebody outside the trial ended the
// container.
func unlessForeign(ctx context.Context, sb sandbox.Sandbox, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := foreignFault(sandbox.Agent, sb.Ended(ctx, sandbox.Agent)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// recordEnd records in answer how a program ended: by itself, at a limit, or with its
// container.
func (p *programs) recordEnd(ctx context.Context, sb sandbox.Sandbox, program *runningProgram, answer *evidence.ProgramAnswer) error {
	ending := sb.Ended(ctx, sandbox.Agent)
	if err := foreignFault(sandbox.Agent, ending); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	if used, err := sb.Usage(limited, sandbox.Agent); err == nil {
		answer.Breaches = used.Breaches()
	}
	answer.Broke = ending.Message
	if !program.HasEnded() {
		return nil
	}
	switch exit, err := program.Wait(); {
	case err != nil:
		answer.Broke = cmp.Or(ending.Message, err.Error())
	case exit.Signal != "":
		answer.Signal = exit.Signal
	default:
		answer.ExitCode = new(exit.Code)
	}
	for _, said := range []struct {
		to *evidence.Output
		*programOutput
	}{{&answer.Stdout, program.stdout}, {&answer.Stderr, program.stderr}} {
		*said.to = said.end()
		answer.Replaced = append(answer.Replaced, secret.First(said.marked.Found().Where, said.kept.Limit)...)
	}
	return nil
}

// runningProgram is a running program. The beginning of its outputs is kept.
type runningProgram struct {
	*process.Running
	stdout, stderr *programOutput
}

func communicate(p process.Process, stdin []byte, kept int64, secrets *secret.Set) *runningProgram {
	a := &runningProgram{stdout: newProgramOutput(kept, secrets), stderr: newProgramOutput(kept, secrets)}
	a.Running = process.Communicate(p, stdin, a.stdout, a.stderr)
	return a
}

// programOutput is the beginning of an output of a program, in which secrets are replaced before it is cut.
type programOutput struct {
	marked *secret.Writer
	kept   *bounded.Head
	size   int64 // of all output
}

func newProgramOutput(most int64, secrets *secret.Set) *programOutput {
	kept := &bounded.Head{Limit: most, Fail: errTooLarge}
	return &programOutput{marked: secret.NewWriter(secrets, kept), kept: kept}
}

// Write never fails, so that the program is not blocked.
func (o *programOutput) Write(p []byte) (int, error) {
	o.size += int64(len(p))
	_, _ = o.marked.Write(p)
	return len(p), nil
}

// end returns what is kept, once nothing more is written.
func (o *programOutput) end() evidence.Output {
	_ = o.marked.Close() // fails if more was written than is kept
	return evidence.Output{Text: o.kept.String(), Cut: o.size - int64(len(o.kept.Bytes()))}
}

// within waits for the program's exit, and kills it after limit or when ctx is done. It reports
// whether the program exited by itself.
func (a *runningProgram) within(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.WaitOrKill(ctx, killGrace)
}
