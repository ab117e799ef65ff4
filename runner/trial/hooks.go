package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// hookTimeout bounds one hook.
const hookTimeout = 5 * time.Minute

// hooks are a trial's own.
type hooks struct{ *stage }

// before runs what is to run before the agent. The error is of a hook that must not fail.
func (h hooks) before(ctx context.Context) error {
	if h.plan.Hooks == nil {
		return nil
	}
	for _, hook := range h.plan.Hooks.Before {
		failed, err := h.run(ctx, hook)
		if err != nil {
			return err
		}
		if failed != "" && hook.ErrorOnFail {
			return fmt.Errorf("hook %q %s", hook.Command, failed)
		}
	}
	return nil
}

// after runs what is to run after the agent, whose trial it cannot fail.
func (h hooks) after(ctx context.Context) error {
	if h.plan.Hooks == nil {
		return nil
	}
	for _, hook := range h.plan.Hooks.After {
		if _, err := h.run(ctx, hook); err != nil {
			return err
		}
	}
	return nil
}

// HookOnHost runs one command by the shell of the host, below start.
func HookOnHost(ctx context.Context, hook eval.Hook, start string, secrets *redact.Set) (failed string, err error) {
	limited, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	stderr := &bounded.Head{Limit: maxSaid}
	dir := hook.WorkingDirectory
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(start, dir)
	}
	err = proc.Run(limited, proc.Command{Args: []string{"sh", "-c", hook.Command}, Dir: dir, Stdout: io.Discard, Stderr: stderr})
	exited := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Sprintf("ran longer than %s", hookTimeout), nil
	case errors.As(err, &exited) && exited.ExitCode() >= 0:
		if !slices.Contains(hook.Accepted(), exited.ExitCode()) {
			failed = fmt.Sprintf("exited with code %d: %s", exited.ExitCode(), text.FirstLine(secrets.String(stderr.String())))
		}
		return failed, nil
	case err != nil:
		return "failed: " + err.Error(), nil
	case !slices.Contains(hook.Accepted(), 0):
		return "exited with code 0", nil
	}
	return "", nil
}

// run runs one command by the shell of the agent's container and records what came of it.
// failed says how it failed. The error is that of ctx.
func (h hooks) run(ctx context.Context, hook eval.Hook) (failed string, err error) {
	if hook.Host {
		if failed, err = HookOnHost(ctx, hook, h.o.Start, h.o.Secrets); failed != "" {
			h.rec.Event(evidence.Event{Kind: "hook", Where: "host", Message: fmt.Sprintf("hook %q on the host %s", hook.Command, failed)})
		}
		return failed, err
	}
	container := sandbox.LayoutOf(h.sandbox, sandbox.Agent)
	what := process.Spec{
		Args: []string{"sh", "-c", hook.Command}, Dir: container.At(path.Join(sandbox.WorkspaceDir, hook.WorkingDirectory)),
		Env: h.plan.Environment(container, h.found),
	}
	started, err := h.sandbox.Start(ctx, sandbox.Agent, what)
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
			failed = fmt.Sprintf("exited with code %d: %s", a.exit.Code, text.FirstLine(a.stderr.String()))
		}
	}
	if failed != "" {
		h.rec.Event(evidence.Event{Kind: "hook", Where: sandbox.Agent, Message: fmt.Sprintf("hook %q %s", hook.Command, failed)})
	}
	return failed, nil
}
