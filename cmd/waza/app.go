package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/schemas"
)

// Exit codes. When several apply, the one listed first wins.
const (
	exitOK     = results.ExitPassed
	exitFailed = results.ExitFailed
	exitUsage  = 2 // bad usage or configuration
	exitGolden = 2 // of gate, as in upstream waza
	exitInfra  = results.ExitIncomplete
)

// state holds everything of the process that commands use, so that tests can run commands in parallel.
type state struct {
	args    []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  *screen
	lookup  func(string) (string, bool)
	version string
	guest   string                            // the executable that becomes process 1 of containers; defaults to this one
	digest  func(path string) (string, error) // returns the SHA-256 of an executable
	warned  map[string]bool                   // warnings about files that have been printed

	workflow *workflow  // nil outside of GitHub Actions
	found    *foundFile // nil if the command line names the file that the command uses
}

// exitError is an error with an exit code. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// anyNumber means, as the maximum for [takes], any number of arguments.
const anyNumber = math.MaxInt

// takes returns an error that says what a command takes, unless it has at least least and at most most
// arguments.
func takes(c *cli.Command, least, most int, what string) error {
	given, wrong := c.Args().Slice(), ""
	switch n := len(given); {
	case n > most:
		wrong = fmt.Sprintf("remove %q", given[most])
	case n >= least:
		return nil
	case n == 0:
		wrong = "nothing was given"
	default:
		wrong = fmt.Sprintf("only %q was given", strings.Join(given, " "))
	}
	return usage("%s takes %s; %s; see %s --help", strings.TrimPrefix(c.FullName(), "waza "), what, wrong, c.FullName())
}

// withExitCode returns nil for nil, and otherwise the result of [exitOf].
func withExitCode(err error) error {
	if err == nil {
		return nil
	}
	return exitOf(err)
}

// exitOf returns err with its own exit code, or with exitInfra if it has none. Errors about a run directory
// that the user named, for example that it is in use, are usage errors.
func exitOf(err error) *exitError {
	var mistake runner.Mistake
	if errors.As(err, &mistake) || errors.Is(err, evidence.ErrNotPlain) || errors.Is(err, containers.ErrImage) || errors.Is(err, sandbox.ErrAlive) || errors.Is(err, offline.ErrOffline) {
		return &exitError{exitUsage, err}
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return &exitError{exit.code, err}
	}
	return &exitError{exitInfra, err}
}

// main runs the command line and returns the exit code.
func (s *state) main(ctx context.Context) int {
	s.warned, s.workflow = map[string]bool{}, beginWorkflow(s.lookup, s.stderr.out) // from here on, GitHub obeys no workflow commands in the output
	defer func() { s.workflow.end(s.stderr.out) }()
	out := newStdout(s.stdout)
	s.stdout = out
	app := s.app()
	if last := len(s.args) - 1; last > 0 && s.args[last] == completionFlag {
		if values, ok := completions(app, s.args[1:last]); ok {
			_, err := fmt.Fprintln(s.stdout, strings.Join(values, "\n"))
			return s.end(&exitError{exitOK, errors.Join(err, out.plain.Close())})
		}
	}
	err := app.Run(ctx, spelled(s.args))
	out.failed = cmp.Or(out.failed, out.plain.Close())
	if out.failed != nil { // the caller did not get the whole output
		s.printError(fmt.Errorf("the output is incomplete: %w", out.failed))
		return exitInfra
	}
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitUsage, err}
	}
	return s.end(exit)
}

// end prints the error, if any, and returns the exit code.
func (s *state) end(exit *exitError) int {
	if exit.err != nil {
		s.printError(withDirectory(exit.err))
	}
	return exit.code
}

// spelled replaces "help COMMAND" and "--version", which users know from other programs, by waza's own
// spelling.
func spelled(args []string) []string {
	switch {
	case len(args) > 1 && args[1] == "help":
		return slices.Concat(args[:1], args[2:], []string{"--help"})
	case len(args) == 2 && args[1] == "--version":
		return []string{args[0], "version"}
	}
	return args
}

// withDirectory returns err or, if the current directory no longer exists, an error that says so.
func withDirectory(err error) error {
	var failed *os.SyscallError
	if errors.As(err, &failed) && failed.Syscall == "getwd" && errors.Is(err, fs.ErrNotExist) {
		return errors.New("the current directory has been removed; change to one that is there")
	}
	return err
}

// stdoutWriter is stdout. It filters terminal control sequences, and remembers the first write error.
type stdoutWriter struct {
	out    io.Writer
	plain  *text.Plain // to out
	failed error
}

func newStdout(w io.Writer) *stdoutWriter {
	return &stdoutWriter{out: w, plain: text.NewPlain(w, ownSequences(w)...)}
}

func (o *stdoutWriter) Write(p []byte) (int, error) {
	n, err := o.plain.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

// printError prints an error. An error in a file is printed with its position and an excerpt of the file.
func (s *state) printError(err error) {
	var problems strictyaml.Errors
	if errors.As(err, &problems) {
		fmt.Fprintln(s.stderr, text.InertLines(strings.TrimRight(problems.Error(), "\n")))
		return
	}
	s.say("waza: " + text.Indented(err.Error()))
}

func (s *state) app() *cli.Command {
	app := &cli.Command{
		Name:            "waza",
		Usage:           "Run agent evaluations, each trial in its own sandbox",
		HideHelpCommand: true,
		Writer:          s.stdout,
		ErrWriter:       s.stderr,
		ExitErrHandler:  func(context.Context, *cli.Command, error) {},
		Commands: []*cli.Command{
			initCommand(s),
			newCommand(s),
			checkCommand(s),
			runCommand(s),
			rerunCommand(s),
			mergeCommand(s),
			gradeCommand(s),
			recordCommand(s),
			showCommand(s),
			reportCommand(s),
			compareCommand(s),
			gateCommand(s),
			exportCommand(s),
			serveCommand(s),
			inspectCommand(s),
			lockCommand(s),
			imagesCommand(s),
			modelStubCommand(s),
			doctorCommand(s),
			gcCommand(s),
			schemaCommand(s),
			versionCommand(s),
		},
		Action:                noCommand,
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden, c.Usage = false, "Print a script with which a shell completes commands and flags"
			c.Action = noSubcommand
			withBareBash(c)
			c.Description = "For bash, put `source <(waza completion bash)` into ~/.bashrc, and for zsh the same with zsh into ~/.zshrc. " +
				"For fish, write what it prints to ~/.config/fish/completions/waza.fish."
		},
	}
	_ = app.Walk(func(c *cli.Command) error { // subcommands do not inherit these
		c.OnUsageError, c.DisableSliceFlagSeparator = usageError, true
		if len(c.Commands) > 0 {
			c.StopOnNthArg = new(1) // the first argument is the name of a command, and flags follow it
		}
		return nil
	})
	return app
}

func noCommand(_ context.Context, c *cli.Command) error {
	if name := c.Args().First(); name != "" {
		var known []string
		for _, command := range c.VisibleCommands() {
			known = append(known, command.Name)
		}
		return usage("unknown command %q; %s", name, suggestion("", name, known, "waza"))
	}
	return cli.ShowRootCommandHelp(c)
}

// noSubcommand is the action of a command with subcommands when none, or an unknown one, is
// given.
func noSubcommand(_ context.Context, c *cli.Command) error {
	name := c.Args().First()
	if name == "" {
		return cli.ShowSubcommandHelp(c)
	}
	var known []string
	for _, command := range c.Commands {
		known = append(known, command.Name)
	}
	return usage("unknown command %s %q; %s", c.Name, name, strictyaml.Suggest(name, known))
}

// badValue matches the flag library's errors about a flag's value.
var badValue = regexp.MustCompile(`(?s)^(invalid value .*) for flag -([\w-]+): (.*)$`)

func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	wrong := err.Error()
	if flag, isUnknown := strings.CutPrefix(wrong, "flag provided but not defined: -"); isUnknown {
		dashes := "--"
		if len(flag) == 1 {
			dashes = "-"
		}
		return usage("unknown flag %s%s; %s", dashes, flag, suggestion("--", flag, flagNames(c), c.FullName()))
	}
	if flag, isMissing := strings.CutPrefix(wrong, "flag needs an argument: "); isMissing {
		wrong = "flag " + flag + " needs a value"
	}
	if bad := badValue.FindStringSubmatch(wrong); bad != nil && strings.HasPrefix(bad[3], "cannot set both flags") {
		flag := strings.TrimPrefix(bad[2], "no-")
		wrong = fmt.Sprintf("--%s and --no-%s contradict each other; give one of them", flag, flag)
	} else if bad != nil {
		wrong = fmt.Sprintf("%s for --%s: %s", bad[1], bad[2], expectedValue(c, bad[2], bad[3]))
	}
	return usage("%s; see %s --help", wrong, c.FullName())
}

// expectedValue describes the value that a flag expects, or returns the flag's own error message.
func expectedValue(c *cli.Command, name, complaint string) string {
	for _, flag := range c.Flags {
		if !slices.Contains(flag.Names(), name) {
			continue
		}
		switch flag.(type) {
		case *cli.BoolFlag, *cli.BoolWithInverseFlag:
			return "must be true or false"
		case *cli.IntFlag, *cli.FloatFlag:
			return "must be a number"
		case *cli.DurationFlag:
			return "must be a time, such as 10s"
		}
	}
	return strings.Replace(complaint, "can't duplicate this flag", "the flag can be given only once; put all servers into one file", 1)
}

// suggestion suggests the known name that is closest to an unknown one, preceded by prefix. If none is close,
// it refers to the help of whose.
func suggestion(prefix, name string, known []string, whose string) string {
	if near := strictyaml.Nearest(name, known); near != "" {
		return "did you mean " + prefix + near + "?"
	}
	return "see " + whose + " --help"
}

// flagNames returns the long names of a command's flags.
func flagNames(command *cli.Command) (names []string) {
	for _, flag := range command.VisibleFlags() {
		names = append(names, slices.DeleteFunc(flag.Names(), func(name string) bool { return len(name) == 1 })...)
	}
	return names
}

// versionCommand is waza version.
func versionCommand(s *state) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "Print the version",
		Flags: []cli.Flag{formatFlag(formatDefault, formatJSON)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
			}
			if formatOf(c) == formatJSON {
				return s.printValue(struct {
					Version string `json:"version"`
					Commit  string `json:"commit,omitempty"`
					Go      string `json:"go"`
				}{s.version, commit(), runtime.Version()})
			}
			_, err := fmt.Fprintln(s.stdout, "waza", s.version)
			return err
		},
	}
}

// buildID identifies this build. Builds of the same version have different ids.
func (s *state) buildID() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	sum, err := s.digest(path)
	if err != nil {
		return ""
	}
	return sum[:16]
}

// schemaCommand is waza schema.
func schemaCommand(s *state) *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "Print the JSON Schema of eval files, task files, results.json or sides of cassettes", ArgsUsage: "eval|task|results|side",
		Action: func(ctx context.Context, c *cli.Command) error {
			const what = "eval, task, results or side"
			if err := takes(c, 1, 1, what); err != nil {
				return err
			}
			documents := map[string][]byte{"eval": schemas.Eval(), "task": schemas.Task(), "results": schemas.Results(), "side": schemas.Side()}
			document, ok := documents[c.Args().First()]
			if !ok {
				return usage("schema takes %s, not %q", what, c.Args().First())
			}
			_, err := s.stdout.Write(document)
			return err
		},
	}
}

var errInterrupted = errors.New("interrupted")

// endSignals returns the signals that end a command: SIGINT, SIGTERM and SIGHUP. SIGHUP is left
// out if it was ignored when the process started, as under nohup, and stays ignored.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// interruptible returns a context that the first of [endSignals] cancels. The second signal prints that
// cleanup is still running. The third exits immediately; the engine or waza gc removes what is left. After
// a call of interruptible, a write to a closed pipe, such as that of head, does not kill the process, which has to
// clean up.
func interruptible(ctx context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, endSignals()...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not ignored: programs that waza starts would inherit that
	done := make(chan struct{})
	go func() {
		for count := 1; ; count++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			switch count {
			case 1:
				fmt.Fprintln(stderr, "interrupted: stopping agents and cleaning up")
				cancel(errInterrupted)
			case 2:
				fmt.Fprintln(stderr, "still cleaning up; interrupt again to leave the rest to waza gc")
			default:
				os.Exit(exitInfra)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// warnOnce prints warnings about files, each of them once.
func (s *state) warnOnce(warnings []*strictyaml.Error) {
	for _, w := range warnings {
		line := fmt.Sprintf("%s:%d:%d: warning: %s", w.File, w.Position.Line, w.Position.Column, w.Message)
		if s.warned[line] {
			continue
		}
		s.warned[line] = true
		s.say(text.Inert(line))
	}
}

// warn prints an error that does not affect any trial.
func (s *state) warn(err error) { s.say("warning: " + text.Indented(err.Error())) }

// printStatus prints a progress message.
func (s *state) printStatus(what string) { s.say(text.Inert(what)) }

// say prints lines to stderr. On a terminal it wraps them, and indents continuation lines.
func (s *state) say(lines string) {
	if columns := width(s.stderr); columns > 0 {
		var wrapped []string
		for line := range strings.SplitSeq(lines, "\n") {
			wrapped = append(wrapped, strings.Join(text.Wrap(line, columns-4), "\n    "))
		}
		lines = strings.Join(wrapped, "\n")
	}
	fmt.Fprintln(s.stderr, lines)
}

// styleOf returns the text style for w, which has colors only on a terminal.
func (s *state) styleOf(w io.Writer) terminal.Style {
	_, isTerminal := terminalOf(w)
	return terminal.StyleFor(isTerminal, s.lookup)
}
