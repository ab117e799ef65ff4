package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/internal/memtest"
)

// TestMain lets scripts run this test binary as waza, and sees to it that tests
// leave no goroutine.
func TestMain(m *testing.M) {
	memtest.Main(map[string]memtest.Role{soakRole: soak})
	testscript.Main(leakless{m}, map[string]func(){"waza": main})
}

type leakless struct{ *testing.M }

func (l leakless) Run() int {
	code := l.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
