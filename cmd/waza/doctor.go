package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// doctorCommand is waza doctor.
func doctorCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "Check whether this machine can run isolated evals",
		Description: "Checks the container engine, what it can enforce, and this machine. It starts the containers of one trial as a run would, and removes them. The exit code is 3 if a run could not work.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "probe", Usage: "Also start sandboxes and try to escape from them"},
			formatFlag(formatDefault, formatJSON),
			onFlag(),
			&cli.BoolFlag{Name: "print", Usage: "With --on kubernetes, print what is installed once in the cluster, as YAML"},
			&cli.BoolFlag{Name: "remove-interface", Usage: "With --print, for evals with remove_interface"},
		}, clusterFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
			}
			on, err := readOn(s, c)
			if err != nil {
				return err
			}
			if c.Bool("print") {
				cluster := clusterOf(c)
				cluster.RemoveInterface = c.Bool("remove-interface")
				text, err := clusterManifests(cluster)
				fmt.Fprint(s.stdout, text)
				return err
			}
			if c.Bool("remove-interface") {
				return usage("--remove-interface requires --print")
			}
			var all sandbox.Checks
			if on != "" {
				all = examineCluster(ctx, clusterOf(c))
			} else {
				all = containers.Examine(ctx)
			}
			switch {
			case all.Worst() == sandbox.CheckProblem:
			case c.Bool("probe"):
				all = append(all, probeSandboxes(ctx, s)...)
			case on == "":
				all = append(all, trySandbox(ctx, s)...)
			}
			all = append(all, examineMachine()...)
			if err := printChecks(s, formatOf(c), all); err != nil {
				return err
			}
			if all.Worst() == sandbox.CheckProblem {
				return &exitError{exitInfra, nil}
			}
			return nil
		},
	}
}

func printChecks(s *state, f format, all sandbox.Checks) error {
	if f == formatJSON {
		return s.printValue(struct {
			Status sandbox.CheckStatus `json:"status"`
			Checks sandbox.Checks      `json:"checks"`
		}{all.Worst(), all})
	}
	columns := cmp.Or(width(s.stdout), 80)
	for _, check := range all {
		printWrapped(s.stdout, columns, fmt.Sprintf("%-8s %-10s ", check.Status, check.Name), check.Message)
		if check.Fix != "" {
			printWrapped(s.stdout, columns, strings.Repeat(" ", checkIndent), "→ "+check.Fix)
		}
	}
	fmt.Fprintln(s.stdout, "\n"+map[sandbox.CheckStatus]string{
		sandbox.CheckOK:      "All is well.",
		sandbox.CheckWarning: "Runs will work; see the warnings.",
		sandbox.CheckProblem: "Runs would fail; see the problems.",
	}[all.Worst()])
	return nil
}

// checkIndent is the width of a check's status and name, in columns.
const checkIndent = 20

// printWrapped prints head and said, wrapped to the given number of columns. Lines after the first are
// indented by checkIndent.
func printWrapped(w io.Writer, columns int, head, said string) {
	for _, line := range text.Wrap(strings.Join(strings.Fields(said), " "), columns-checkIndent) {
		fmt.Fprintln(w, head+line)
		head = strings.Repeat(" ", checkIndent)
	}
}

// trySandbox starts the containers of a trial as a run does, and removes them.
func trySandbox(ctx context.Context, s *state) (all sandbox.Checks) {
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	began, run := time.Now(), runner.NewID("doctor")
	backend, err := containers.Open(ctx, containers.Options{Run: run, Guest: s.guest})
	if err != nil {
		all.Fail("container", err.Error(), "Fix that, and try again.")
		return all
	}
	try := func(network string) error {
		return selftest.Try(ctx, backend, run, evidence.SandboxKind{Network: network, Workspace: "tmpfs"})
	}
	onBridge := try("bridge")
	switch {
	case onBridge == nil:
		all.OK("container", fmt.Sprintf("those of a trial were started as by a run, and removed, in %.1f s", time.Since(began).Seconds()))
	case ctx.Err() == nil && try("airtight") == nil:
		all.Warn("container", "those of a trial with network: bridge, the default, cannot be started: "+onBridge.Error(), "Set config.isolation.network: airtight, with which they can.")
	default:
		all.Fail("container", onBridge.Error(), "Fix that, and try again.")
	}
	if err := backend.Close(context.WithoutCancel(ctx)); err != nil {
		all.Fail("container", err.Error(), "Run waza gc.")
	}
	return all
}

// probeSandboxes attacks a sandbox on each kind of network, as every run does, and ignores
// cached certificates.
func probeSandboxes(ctx context.Context, s *state) sandbox.Checks {
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	run := runner.NewID("doctor")
	backend, err := containers.Open(ctx, containers.Options{Run: run, Guest: s.guest})
	if err != nil {
		return sandbox.Checks{notProbed(err)}
	}
	var all sandbox.Checks
	for _, network := range []string{"bridge", "airtight"} {
		c, err := selftest.Probe(ctx, backend, run, evidence.SandboxKind{Network: network, Workspace: "tmpfs"})
		if err != nil {
			all = append(all, notProbed(err))
			break
		}
		all = append(all, attackChecks(network, c)...)
	}
	if err := backend.Close(context.WithoutCancel(ctx)); err != nil {
		all.Fail("probe", err.Error(), "Run waza gc.")
	}
	return all
}

func notProbed(err error) sandbox.Check {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return sandbox.Check{Name: "probe", Status: sandbox.CheckProblem, Message: "the sandbox could not be probed: " + err.Error(), Fix: "Fix that, and try again."}
}

// attackChecks returns one check for the attacks that were blocked or not tried, and one for each
// attack that got out.
func attackChecks(network string, c evidence.Certificate) sandbox.Checks {
	held, untried := 0, []string(nil)
	for _, a := range c.Attacks {
		switch a.Result {
		case evidence.AttackHeld:
			held++
		case evidence.AttackNotTried:
			untried = append(untried, a.Name)
		}
	}
	message := fmt.Sprintf("%s: %d attacks from inside were held", network, held)
	if len(untried) > 0 {
		message += "; not tried: " + strings.Join(untried, ", ")
	}
	var all sandbox.Checks
	all.OK("probe", message)
	for _, a := range c.With(evidence.AttackGotOut) {
		all.Fail("probe", network+": "+selftest.Explain(&c, a), "Until then, waza run --isolate needs --allow-weak "+a.Name+".")
	}
	return all
}

const (
	// lowSpace is the free disk space, in bytes, below which doctor warns: a run with a few large workspaces
	// may need more.
	lowSpace = 2 << 30
	// minSpace is the free disk space, in bytes, below which doctor fails: the evidence of one trial may need
	// more.
	minSpace = 256 << 20
)

// examineMachine checks this machine's requirements for a run.
func examineMachine() sandbox.Checks {
	var all sandbox.Checks
	examineDir(&all, "run dir", runsDir, "Free some space, or choose another directory with --run-dir.")
	examineDir(&all, "temp dir", files.Named(os.TempDir()), "Free some space, or set TMPDIR.")
	return all
}

// examineDir checks that a directory, which need not exist yet, is writable and has space.
func examineDir(all *sandbox.Checks, name, dir, mend string) {
	there := nearestDir(dir)
	probe := filepath.Join(there, ".waza-doctor-"+strconv.Itoa(os.Getpid()))
	err := files.Write(probe, nil)
	if absolute, errAbs := filepath.Abs(there); errAbs == nil {
		there = absolute
	}
	if err != nil {
		all.Fail(name, fmt.Sprintf("%s cannot be written to: %v", there, files.Cause(err)), "Use a directory that you may write to.")
		return
	}
	_ = files.Remove(probe)
	free, ok := files.FreeSpace(there)
	switch {
	case !ok:
		all.OK(name, there+" can be written to; its free space is not known")
	case free < minSpace:
		all.Fail(name, fmt.Sprintf("%s has %d MiB free", there, free>>20), mend)
	case free < lowSpace:
		all.Warn(name, fmt.Sprintf("%s has %d MiB free", there, free>>20), mend)
	default:
		all.OK(name, fmt.Sprintf("%s has %d GiB free", there, free>>30))
	}
}

// nearestDir returns dir, or its nearest parent that exists.
func nearestDir(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
