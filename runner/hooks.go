package runner

import (
	"context"
	"fmt"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/trial"
)

// runHooks runs hooks of the run. The error is of one that must not fail.
func (r *run) runHooks(ctx context.Context, hooks []eval.Hook) error {
	for _, hook := range hooks {
		failed, err := trial.HookOnHost(ctx, hook, r.o.Start, r.o.Secrets)
		if err == nil && failed != "" {
			err = fmt.Errorf("hook %q on the host %s", hook.Command, failed)
			if !hook.ErrorOnFail && r.o.Warn != nil {
				r.o.Warn(err)
			}
			if !hook.ErrorOnFail {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
