package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// hookTimeout bounds one hook.
const hookTimeout = 5 * time.Minute

// runHooksBefore runs the hooks before the agent of a stage. They have endpoints and an observer of
// their own, so that their calls do not count as the agent's. Their sessions end with them, and they
// cannot reach models. It fails if a hook with error_on_fail fails.
func runHooksBefore(ctx context.Context, s *stage, down *teardown) error {
	if len(s.plan.Hooks.Before) == 0 {
		return nil
	}
	own := *s
	own.log = s.log.ofHooks()
	own.servers = s.servers.forHooks(own.log)
	var err error
	if own.endpoints, err = openEndpoints(ctx, &own, own.log, nil, s.plan.Agent.Egress); err != nil {
		return err
	}
	down.add(part{stop: own.endpoints.close})
	for _, hook := range s.plan.Hooks.Before {
		failed, err := runHook(ctx, &own, hook)
		if err == nil && failed != "" && hook.ErrorOnFail {
			err = fmt.Errorf("hook %q %s", hook.Command, failed)
		}
		if err != nil {
			return errors.Join(err, own.endpoints.close(ctx))
		}
	}
	return own.endpoints.close(ctx)
}

// runHooksAfter runs the hooks after the agent. They cannot fail the trial; the error is that of ctx.
func runHooksAfter(ctx context.Context, s *stage) error {
	for _, hook := range s.plan.Hooks.After {
		if _, err := runHook(ctx, s, hook); err != nil {
			return err
		}
	}
	return nil
}

// runHook runs one hook, on the host or in the agent's container, and records its failure. The
// error is that of ctx.
func runHook(ctx context.Context, s *stage, hook eval.Hook) (failed string, err error) {
	where, on := sandbox.Agent, ""
	if hook.Host {
		where, on = "host", " on the host"
		failed, err = HookOnHost(ctx, hook, s.o.Start, s.o.Secrets)
	} else {
		failed, err = hookInContainer(ctx, s, hook)
	}
	if failed != "" {
		s.log.Recorder.Event(evidence.Event{Kind: "hook", Where: where, Message: fmt.Sprintf("hook %q%s %s", hook.Command, on, failed)})
	}
	return failed, err
}

// HookOnHost runs one hook with the host's shell, in a directory relative to start. failed
// describes its failure, or is empty. The error is that of ctx.
func HookOnHost(ctx context.Context, hook eval.Hook, start string, secrets *secret.Set) (failed string, err error) {
	limited, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	stderr := newProgramOutput(maxProgramOutput, secrets)
	dir := hook.WorkingDirectory
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(start, dir)
	}
	ran := proc.Run(limited, proc.Command{Args: []string{"sh", "-c", hook.Command}, Dir: dir, Stdout: io.Discard, Stderr: stderr})
	code, err := proc.ExitCode(ran)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Sprintf("ran longer than %s", hookTimeout), nil
	case err != nil || code < 0:
		return "failed: " + ran.Error(), nil
	}
	return unacceptedExit(hook, code, stderr.end().Text), nil
}

// hookInContainer runs one hook with the shell of the agent's container.
func hookInContainer(ctx context.Context, s *stage, hook eval.Hook) (failed string, err error) {
	container := s.sandbox.Layout(sandbox.Agent)
	started, err := s.sandbox.Start(ctx, sandbox.Agent, process.Spec{
		Args: []string{"sh", "-c", hook.Command}, Dir: container.At(path.Join(sandbox.WorkspaceDir, hook.WorkingDirectory)),
		Env: s.plan.Environment(container, s.endpoints.addresses),
	})
	if err != nil {
		return "cannot be started: " + err.Error(), nil
	}
	program := communicate(started, nil, maxProgramOutput, s.o.Secrets)
	inTime := program.within(ctx, hookTimeout)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case !inTime:
		return fmt.Sprintf("ran longer than %s", hookTimeout), nil
	}
	exit, err := program.Wait()
	switch {
	case err != nil:
		return "was lost: " + err.Error(), nil
	case exit.Signal != "":
		return "was ended by " + exit.Signal, nil
	}
	return unacceptedExit(hook, exit.Code, program.stderr.end().Text), nil
}

// unacceptedExit describes an exit code that the hook does not accept, or returns "".
func unacceptedExit(hook eval.Hook, code int, stderr string) string {
	if slices.Contains(hook.Accepted(), code) {
		return ""
	}
	return fmt.Sprintf("exited with code %d: %s", code, text.Telling(stderr))
}
