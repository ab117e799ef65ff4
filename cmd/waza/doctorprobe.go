package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/checkup"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// probeSandboxes attacks a sandbox on each kind of network, as a run does with its
// own, whatever certificates are kept.
func (s *state) probeSandboxes(ctx context.Context) checkup.Checks {
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	run := newRunID("doctor")
	backend, err := containers.Open(ctx, containers.Options{Run: run, Guest: s.guest})
	if err != nil {
		return checkup.Checks{notProbed(err)}
	}
	var all checkup.Checks
	for _, network := range []string{"bridge", "airtight"} {
		c, err := selftest.Probe(ctx, backend, run, evidence.SandboxKind{Network: network, Workspace: "tmpfs"})
		if err != nil {
			all = append(all, notProbed(err))
			break
		}
		all = append(all, judged(network, c)...)
	}
	if err := backend.Close(context.WithoutCancel(ctx)); err != nil {
		all.Fail("probe", err.Error(), "Run waza gc.")
	}
	return all
}

func notProbed(err error) checkup.Check {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return checkup.Check{Name: "probe", Status: checkup.Problem, Says: "the sandbox could not be probed: " + err.Error(), Mend: "Mend what is said above, and try again."}
}

// judged is a check of what held and what could not be tried, and one of each attack
// that got out.
func judged(network string, c evidence.Certificate) checkup.Checks {
	held, untried := 0, []string(nil)
	for _, a := range c.Attacks {
		switch a.Result {
		case evidence.AttackHeld:
			held++
		case evidence.AttackNotTried:
			untried = append(untried, a.Name)
		}
	}
	says := fmt.Sprintf("%s: %d attacks from inside were held", network, held)
	if len(untried) > 0 {
		says += "; not tried: " + strings.Join(untried, ", ")
	}
	var all checkup.Checks
	all.OK("probe", says)
	for _, a := range c.With(evidence.AttackGotOut) {
		all.Fail("probe", network+": "+selftest.Explain(a), "Until then, waza run --isolate needs --allow-weak "+a.Name+".")
	}
	return all
}
