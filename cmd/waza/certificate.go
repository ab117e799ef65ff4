package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

func checkAllowWeak(o runOptions) error {
	if len(o.allowWeak) > 0 && !o.isolate {
		return usage("--allow-weak is about the sandbox: it needs --isolate")
	}
	if err := selftest.CheckNames(o.allowWeak); err != nil {
		return usage("--allow-weak: %w", err)
	}
	return nil
}

// certify has the run's certificate in its record. The error tells of what gets out
// and is not allowed to.
func (j *job) certify(ctx context.Context, backend backend, record *runner.Record) error {
	attackable, ok := backend.(selftest.Backend)
	if !ok || !defence.Certificate {
		return nil
	}
	c, err := j.certificateOf(ctx, attackable, j.runID, selftest.KindOf(j.trials[0]), j.options.allowWeak, j.say)
	record.Certificate = c
	return err
}

// certificateOf is the certificate of sandboxes of a kind; nil where nothing can be told.
func (s *state) certificateOf(ctx context.Context, attackable selftest.Backend, run string, kind evidence.SandboxKind, allowWeak []string, say func(string)) (*evidence.Certificate, error) {
	c, holes, err := selftest.Obtain(ctx, attackable, run, kind, certificateCache(), allowWeak, say)
	if err != nil {
		return nil, &exitError{exitInfra, err}
	}
	if len(holes) == 0 {
		return &c, nil
	}
	var names strings.Builder
	for _, a := range c.With(evidence.AttackGotOut) {
		if !a.Allowed {
			names.WriteString(" --allow-weak " + a.Name)
		}
	}
	return &c, &exitError{exitInfra, fmt.Errorf("the sandbox does not hold, so nothing was run:\n%s\nto run all the same:%s", strings.Join(holes, "\n"), names.String())}
}

// certificateCache is where runs of this user keep certificates.
func certificateCache() selftest.Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return selftest.Cache{}
	}
	return selftest.OpenCache(dir)
}
