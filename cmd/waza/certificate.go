package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/certificate"
)

func checkAllowWeak(o runOptions) error {
	if len(o.allowWeak) > 0 && !o.isolate {
		return usage("--allow-weak is about the sandbox: it needs --isolate")
	}
	if err := certificate.CheckNames(o.allowWeak); err != nil {
		return usage("--allow-weak: %w", err)
	}
	return nil
}

// certify has the run's certificate in its record. The error tells of what gets out
// and is not allowed to.
func (j *job) certify(ctx context.Context, backend backend, record *runner.Record) error {
	scout, ok := backend.(runner.Scout)
	if !ok {
		return nil
	}
	say := func(what string) { fmt.Fprintln(j.stderr, what) }
	c, holes, err := certificate.Obtain(ctx, scout, j.runID, certificate.KindOf(j.trials[0]), certificateCache(), j.options.allowWeak, say)
	if err != nil {
		return &exitError{exitInfra, err}
	}
	record.Certificate = &c
	if len(holes) == 0 {
		return nil
	}
	var names strings.Builder
	for _, a := range c.GotOut() {
		if !a.Allowed {
			names.WriteString(" --allow-weak " + a.Name)
		}
	}
	return &exitError{exitInfra, fmt.Errorf("the sandbox does not hold, so nothing was run:\n%s\nto run all the same:%s", strings.Join(holes, "\n"), names.String())}
}

// certificateCache is where runs of this user keep certificates.
func certificateCache() certificate.Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return certificate.Cache{}
	}
	return certificate.OpenCache(dir)
}
