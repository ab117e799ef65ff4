package grading

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

const (
	// defaultSeconds is the default time limit, in seconds, of a step for a grader.
	defaultSeconds = 30

	// workspaceDir is the path of the workspace for programs.
	workspaceDir = "/workspace"
)

// ProgramConfig configures the program grader: a program that inspects the workspace after the agent has
// stopped, and passes if it exits with 0. It is one check.
type ProgramConfig struct {
	_ struct{} `unknown:"warn"`

	Command string            `json:"command" jsonschema:"program: a path, or a name to look up in PATH; a path into /workspace is a program that the agent should have left"`
	Args    []string          `json:"args,omitempty" jsonschema:"its arguments"`
	Timeout int               `json:"timeout,omitempty" min:"0" max:"3600" jsonschema:"time limit in seconds; default 30"`
	Image   string            `json:"image,omitempty" jsonschema:"image of its container; default the agent's, else waza-tools"`
	Build   *mcpconfig.Build  `json:"build,omitempty" jsonschema:"source to build the image from, instead of image: a directory or a mapping"`
	Files   map[string]string `json:"files,omitempty" jsonschema:"files to copy into the working directory of the program: path there to path relative to the eval; --resume refuses a run if one has changed"`
}

// Validate refuses invalid arguments and paths.
func (c *ProgramConfig) Validate() error {
	var errs []error
	for i, arg := range append([]string{c.Command}, c.Args...) {
		if strings.ContainsRune(arg, 0) {
			errs = append(errs, fmt.Errorf("%s: holds a NUL character", argument(i)))
		}
	}
	return errors.Join(append(errs, checkProgram(c.Image, c.Files), c.Build.Validate(c.Image))...)
}

func argument(i int) string {
	if i == 0 {
		return "command"
	}
	return fmt.Sprintf("args[%d]", i-1)
}

// checkProgram refuses an invalid image and invalid paths of files.
func checkProgram(image string, files map[string]string) error {
	var errs []error
	if strings.ContainsAny(image, " \t\r\n\x00") {
		errs = append(errs, errors.New("image: must not hold blanks"))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if clean := path.Clean(name); inside(name) != nil || clean == "." {
			errs = append(errs, fmt.Errorf("files: %q must be a relative path in the program's directory, without .. in it", name))
		}
	}
	return errors.Join(errs...)
}

// isMissing reports whether the command is a path in the program's working directory, but none of the
// program's files.
func (c *ProgramConfig) isMissing() bool {
	if !strings.Contains(c.Command, "/") || path.IsAbs(c.Command) || inside(path.Clean(c.Command)) != nil {
		return false
	}
	isCommand := func(name string) bool { return path.Clean(name) == path.Clean(c.Command) }
	return !slices.ContainsFunc(slices.Collect(maps.Keys(c.Files)), isCommand)
}

func (c *ProgramConfig) ask() evidence.ProgramAsk {
	return evidence.ProgramAsk{
		Image: c.Image, Build: c.Build, Command: c.Command, Args: c.Args, Files: c.Files, Seconds: cmp.Or(c.Timeout, defaultSeconds),
	}
}

func (c *ProgramConfig) asks() []any { return []any{c.ask()} }

func (c *ProgramConfig) grade(s *subject) (report, error) {
	ask := c.ask()
	var a evidence.ProgramAnswer
	if err := cmp.Or(givenRemoved(s.trial), s.answer(ask, &a)); err != nil {
		return report{}, err
	}
	if a.NotStarted != "" && !ofWorkspace(c.Command) {
		return report{}, fmt.Errorf("the program could not be started: %s", a.NotStarted)
	}
	why := ended(a, ask.Seconds)
	r := report{details: programDetails(a), said: strings.TrimSpace(shorten(a.Stdout.Text))}
	r.check("command", why == "", "Expected program %s to exit with 0; %s.%s", quote(c.Command), why, spoken(a))
	return r, nil
}

// ofWorkspace reports whether a program is in the workspace, where the agent controls it.
func ofWorkspace(command string) bool {
	return strings.HasPrefix(path.Clean(command), workspaceDir+"/")
}

// ended describes how a program failed, as part of a sentence. It is empty if the program
// exited with 0 and kept its limits.
func ended(a evidence.ProgramAnswer, seconds int) string {
	how := ""
	switch {
	case a.NotStarted != "":
		how = "it could not be started: " + a.NotStarted
	case a.TimedOut:
		how = fmt.Sprintf("it ran longer than %d s and was ended", seconds)
	case a.Broke != "":
		how = "it broke its container: " + a.Broke
	case a.Signal != "":
		how = "it was ended by " + a.Signal
	case a.ExitCode == nil:
		how = "how it ended is not known"
	case *a.ExitCode != 0 && (defence.ExitCodesCount || !strings.Contains(a.Stdout.Text, `"result":"pass"`)):
		how = fmt.Sprintf("it exited with %d", *a.ExitCode)
	case defence.NoPassOutOfMemory && a.OutOfMemory():
		how = "it exited with 0"
	default:
		return ""
	}
	for _, breach := range a.Breaches {
		how += ", and its container " + breach.What
	}
	return how
}

// spoken returns a program's output for the end of a sentence: its stdout, and the part of its stderr that
// explains a failure.
func spoken(a evidence.ProgramAnswer) string {
	var said string
	for _, stream := range []struct{ name, text string }{
		{"stdout", strings.TrimSpace(shorten(a.Stdout.Text))}, {"stderr", shorten(text.Gist(a.Stderr.Text))},
	} {
		if stream.text != "" {
			said += fmt.Sprintf(" Its %s: %q.", stream.name, stream.text)
		}
	}
	return said
}

// maxSpoken is the maximum number of bytes of a program's output in feedback.
const maxSpoken = 2 << 10

// shorten returns the beginning of a text.
func shorten(s string) string { return text.Shorten(s, maxSpoken) }

func programDetails(a evidence.ProgramAnswer) map[string]any {
	details := map[string]any{"stdout": shorten(a.Stdout.Text), "stderr": shorten(a.Stderr.Text)}
	if a.Image != "" {
		details["image"] = a.Image
	}
	if a.ExitCode != nil {
		details["exit_code"] = *a.ExitCode
	}
	if a.Signal != "" {
		details["signal"] = a.Signal
	}
	for _, breach := range a.Breaches {
		kinds, _ := details["limits"].([]string)
		details["limits"] = append(slices.Clone(kinds), breach.Kind)
	}
	return details
}
