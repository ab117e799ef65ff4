package runner

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/waza-isolate/waza/internal/visible"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/process"
	"github.com/waza-isolate/waza/runner/spec"
)

// hookTimeout bounds one hook.
const hookTimeout = 5 * time.Minute

// Hooks are commands that run in the agent's box before the agent starts and after it ended.
type Hooks struct {
	Before []spec.Hook `json:"before,omitempty"`
	After  []spec.Hook `json:"after,omitempty"`
}

// planHooks gives each trial the hooks of the run too: it has a sandbox of its own.
func planHooks(h *spec.Hooks) *Hooks {
	if h == nil || len(h.BeforeRun)+len(h.BeforeTask)+len(h.AfterTask)+len(h.AfterRun) == 0 {
		return nil
	}
	return &Hooks{Before: slices.Concat(h.BeforeRun, h.BeforeTask), After: slices.Concat(h.AfterTask, h.AfterRun)}
}

func (h *Hooks) describe(b io.Writer) {
	if h == nil {
		return
	}
	for _, hook := range h.Before {
		fmt.Fprintf(b, "  hook        before the agent: %q\n", hook.Command)
	}
	for _, hook := range h.After {
		fmt.Fprintf(b, "  hook        after the agent: %q\n", hook.Command)
	}
}

// runBefore runs what is to run before the agent. The error is of a hook that must not fail.
func (tr *trialRun) runBefore(ctx context.Context) error {
	if tr.plan.Hooks == nil {
		return nil
	}
	for _, hook := range tr.plan.Hooks.Before {
		failed, err := tr.runHook(ctx, hook)
		if err != nil {
			return err
		}
		if failed != "" && hook.ErrorOnFail {
			return fmt.Errorf("hook %q %s", hook.Command, failed)
		}
	}
	return nil
}

// runAfter runs what is to run after the agent, whose trial it cannot fail.
func (tr *trialRun) runAfter(ctx context.Context) error {
	if tr.plan.Hooks == nil || !tr.agent.endsWithin(0) {
		return nil
	}
	for _, hook := range tr.plan.Hooks.After {
		if _, err := tr.runHook(ctx, hook); err != nil {
			return err
		}
	}
	return nil
}

// runHook runs one command by the shell of the agent's box and records what came of it.
// failed says how it failed. The error is that of ctx.
func (tr *trialRun) runHook(ctx context.Context, hook spec.Hook) (failed string, err error) {
	box := tr.sandbox.Layout(AgentBox)
	what := process.Spec{
		Args: []string{"sh", "-c", hook.Command}, Dir: box.At(path.Join(WorkspaceDir, hook.WorkingDirectory)),
		Env: agentEnv(tr.plan, box, tr.plan.values(box, tr.found)),
	}
	started, err := tr.sandbox.Start(ctx, AgentBox, what)
	if err != nil {
		failed = "cannot be started: " + err.Error()
	} else {
		a := attendProgram(started, nil, maxSaid)
		switch inTime := a.within(ctx, hookTimeout); {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !inTime:
			failed = fmt.Sprintf("ran longer than %s", hookTimeout)
		case a.err != nil:
			failed = "was lost: " + a.err.Error()
		case a.exit.Signal != "":
			failed = "was ended by " + a.exit.Signal
		case !slices.Contains(hook.Accepted(), a.exit.Code):
			failed = fmt.Sprintf("exited with code %d: %s", a.exit.Code, visible.FirstLine(a.stderr.said().Text))
		}
	}
	if failed != "" {
		tr.rec.Event(evidence.Event{Kind: "hook", Where: AgentBox, Message: fmt.Sprintf("hook %q %s", hook.Command, failed)})
	}
	return failed, nil
}
