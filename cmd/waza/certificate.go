package main

import (
	"os"

	"github.com/waza-isolate/waza/sandbox/selftest"
)

func checkAllowWeak(o runOptions) error {
	if len(o.AllowWeak) > 0 && !o.Isolated {
		return usage("--allow-weak is about the sandbox: it needs --isolate")
	}
	if err := selftest.CheckNames(o.AllowWeak); err != nil {
		return usage("--allow-weak: %w", err)
	}
	return nil
}

// certificateCache is where runs of this user keep certificates.
func certificateCache() selftest.Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return selftest.Cache{}
	}
	return selftest.OpenCache(dir)
}
