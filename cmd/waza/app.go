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
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
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
	exitInfra  = results.ExitIncomplete
)

// state holds everything of the process that a command uses, so that tests can run commands in
// parallel.
type state struct {
	args    []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  *screen
	lookup  func(string) (string, bool)
	version string
	guest   string                            // the executable that becomes process 1 of containers; defaults to this one
	digest  func(path string) (string, error) // SHA-256 of an executable
	warned  map[string]bool                   // warnings about files that were already printed

	workflow *workflow // nil outside of GitHub Actions
}

// exitError is an error with the exit code it leads to. A nil err exits silently.
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

// anyNumber is a most for [takes] that no command line exceeds.
const anyNumber = math.MaxInt

// takes returns an error that names what a command takes, unless it has from least to most
// arguments.
func takes(c *cli.Context, least, most int, what string) error {
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
	return usage("%s takes %s; %s; see %s --help", strings.TrimPrefix(c.Command.HelpName, "waza "), what, wrong, c.Command.HelpName)
}

// withExitCode returns nil or what [exitOf] does.
func withExitCode(err error) error {
	if err == nil {
		return nil
	}
	return exitOf(err)
}

// exitOf returns err with its own exit code, or with exitInfra if it has none. Errors about a
// run directory that the user named, such as one that is in use, are usage errors.
func exitOf(err error) *exitError {
	var mistake runner.Mistake
	if errors.As(err, &mistake) || errors.Is(err, evidence.ErrNotPlain) || errors.Is(err, containers.ErrImage) || errors.Is(err, sandbox.ErrAlive) {
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
	s.warned, s.workflow = map[string]bool{}, beginWorkflow(s.lookup, s.stderr)
	defer s.workflow.end(s.stderr)
	out := &stdoutWriter{Writer: s.stdout}
	s.stdout = out
	app := s.app()
	args, err := permute(app, spelled(s.args))
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if out.failed != nil { // the caller did not get the result
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

// end says what is wrong, and returns the exit code.
func (s *state) end(exit *exitError) int {
	if exit.err != nil {
		s.printError(withDirectory(exit.err))
	}
	return exit.code
}

// spelled returns args with "help COMMAND" and "--version", which other programs have, as waza's own.
func spelled(args []string) []string {
	switch {
	case len(args) > 1 && args[1] == "help":
		return slices.Concat(args[:1], args[2:], []string{"--help"})
	case len(args) == 2 && args[1] == "--version":
		return []string{args[0], "version"}
	}
	return args
}

// withDirectory returns err, or says that the current directory is gone if that is what failed.
func withDirectory(err error) error {
	var failed *os.SyscallError
	if errors.As(err, &failed) && failed.Syscall == "getwd" && errors.Is(err, fs.ErrNotExist) {
		return errors.New("the current directory has been removed; change to one that is there")
	}
	return err
}

// stdoutWriter is stdout that remembers the first write error.
type stdoutWriter struct {
	io.Writer
	failed error
}

func (o *stdoutWriter) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

// printError prints an error. Errors in files are printed with their position and an excerpt.
func (s *state) printError(err error) {
	var problems strictyaml.Errors
	if errors.As(err, &problems) {
		fmt.Fprintln(s.stderr, text.InertLines(strings.TrimRight(problems.Error(), "\n")))
		return
	}
	fmt.Fprintf(s.stderr, "waza: %s\n", text.Indented(err.Error()))
}

func (s *state) app() *cli.App {
	app := &cli.App{
		Name:                      "waza",
		Usage:                     "Run agent evaluations, each trial in its own sandbox",
		HideVersion:               true,
		HideHelpCommand:           true,
		Writer:                    s.stdout,
		ErrWriter:                 s.stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageError,
		CommandNotFound:           nil,
		Commands:                  []*cli.Command{initCommand(s), newCommand(s), checkCommand(s), runCommand(s), rerunCommand(s), mergeCommand(s), gradeCommand(s), showCommand(s), reportCommand(s), compareCommand(s), gateCommand(s), exportCommand(s), serveCommand(s), inspectCommand(s), lockCommand(s), imagesCommand(s), modelStubCommand(s), doctorCommand(s), gcCommand(s), schemaCommand(s), versionCommand(s)},
		Action:                    noCommand,
		DisableSliceFlagSeparator: true,
	}
	hideFalse(app.Commands)
	return app
}

// hideFalse keeps "(default: false)" out of the help of commands.
func hideFalse(commands []*cli.Command) {
	for _, command := range commands {
		hideFalse(command.Subcommands)
		for _, flag := range command.Flags {
			if b, ok := flag.(*cli.BoolFlag); ok {
				b.DisableDefaultText = !b.Value
			}
		}
	}
}

func noCommand(c *cli.Context) error {
	if name := c.Args().First(); name != "" {
		var known []string
		for _, command := range c.App.VisibleCommands() {
			known = append(known, command.Name)
		}
		return usage("unknown command %q; %s", name, suggestion("", name, known, "waza"))
	}
	return cli.ShowAppHelp(c)
}

// noSubcommand is the action of a command with subcommands when none, or an unknown one, is
// given.
func noSubcommand(c *cli.Context) error {
	name := c.Args().First()
	if name == "" {
		return cli.ShowSubcommandHelp(c)
	}
	var known []string
	for _, command := range c.Command.Subcommands {
		known = append(known, command.Name)
	}
	return usage("unknown command %s %q; %s", c.Command.Name, name, strictyaml.Suggest(name, known))
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "waza"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "waza" {
		name = "waza " + c.Command.Name
	}
	if flag, isUnknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); isUnknown {
		return usage("unknown flag --%s; %s", flag, suggestion("--", flag, flagNames(c.Command), name))
	}
	plainly := strings.NewReplacer(" for flag -", " for --", " for -", " for --", ": parse error", ": must be "+expectedValue(c.Command, err.Error()))
	return usage("%s; see %s --help", plainly.Replace(err.Error()), name)
}

// expectedValue describes the value that a flag expects, given the flag library's parse error.
func expectedValue(command *cli.Command, complaint string) string {
	if strings.HasPrefix(complaint, "invalid boolean") {
		return "true or false"
	}
	for _, flag := range command.VisibleFlags() {
		if _, isTime := flag.(*cli.DurationFlag); isTime && strings.Contains(complaint, " for flag -"+flag.Names()[0]+":") {
			return "a time, such as 10s"
		}
	}
	return "a number"
}

// suggestion suggests the known name that is closest to an unknown one, with prefix in front, or
// refers to the help of whose if none is close.
func suggestion(prefix, name string, known []string, whose string) string {
	if near := strictyaml.Nearest(name, known); near != "" {
		return "did you mean " + prefix + near + "?"
	}
	return "see " + whose + " --help"
}

// flagNames returns the long names of a command's flags.
func flagNames(command *cli.Command) (names []string) {
	if command == nil {
		return nil
	}
	for _, flag := range command.VisibleFlags() {
		names = append(names, slices.DeleteFunc(flag.Names(), func(name string) bool { return len(name) == 1 })...)
	}
	return names
}

// versionCommand is waza version.
func versionCommand(s *state) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "Print the version", OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if err := takes(c, 0, 0, "no arguments"); err != nil {
				return err
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
		Name: "schema", Usage: "Print the JSON Schema of eval files, task files or results.json", ArgsUsage: "eval|task|results", OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			const what = "eval, task or results"
			if err := takes(c, 1, 1, what); err != nil {
				return err
			}
			documents := map[string][]byte{"eval": schemas.Eval(), "task": schemas.Task(), "results": schemas.Results()}
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

// interruptible returns a context that the first of [endSignals] cancels. The second signal prints
// that cleanup is still under way. The third exits immediately; what is left is removed by the
// engine or by waza gc.
func interruptible(ctx context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, endSignals()...)
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

// warnOnce prints warnings about files, each only once.
func (s *state) warnOnce(warnings []*strictyaml.Error) {
	for _, w := range warnings {
		line := fmt.Sprintf("%s:%d:%d: warning: %s", w.File, w.Position.Line, w.Position.Column, w.Message)
		if s.warned[line] {
			continue
		}
		s.warned[line] = true
		fmt.Fprintln(s.stderr, text.Inert(line))
	}
}

// warn prints an error that does not affect any trial.
func (s *state) warn(err error) { fmt.Fprintf(s.stderr, "warning: %s\n", text.Indented(err.Error())) }

// printStatus prints a progress message.
func (s *state) printStatus(what string) { fmt.Fprintln(s.stderr, text.Inert(what)) }

// styleOf returns the text style for w, which has colors only on a terminal.
func (s *state) styleOf(w io.Writer) terminal.Style {
	_, isTerminal := terminalOf(w)
	return terminal.StyleFor(isTerminal, s.lookup)
}

// wrapHelp has help printed for a terminal of that many columns, or for 100 if there is none, and
// name a flag once that may be repeated.
func wrapHelp(columns int) {
	const names, least = 36, 40
	columns = max(cmp.Or(columns, 100), names+least)
	flag, page := cli.FlagStringer, cli.HelpPrinter
	cli.FlagStringer = func(f cli.Flag) string {
		name, does, _ := strings.Cut(flag(f), "\t")
		name, _, _ = strings.Cut(name, " [ ")
		return name + "\t" + strings.Join(text.Wrap(does, columns-names), "\n   \t")
	}
	cli.HelpPrinter = func(w io.Writer, layout string, of any) {
		if c, ok := of.(*cli.Command); ok {
			wrapped, paragraphs := *c, strings.Split(c.Description, "\n\n")
			for i, p := range paragraphs {
				paragraphs[i] = strings.Join(text.Wrap(strings.ReplaceAll(p, "\n", " "), columns-4), "\n")
			}
			wrapped.Description = strings.Join(paragraphs, "\n\n")
			of = &wrapped
		}
		page(w, layout, of)
	}
}
