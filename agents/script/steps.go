package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// sayStep writes a message of the assistant.
type sayStep struct{ text }

func (s *sayStep) compile(c *compiler, at strictyaml.Path) { c.text(at, &s.text) }

func (s *sayStep) run(_ context.Context, r *runner) (any, error) {
	said, err := s.String(r.variables)
	if err != nil {
		return nil, err
	}
	r.transcript.Say(said)
	r.said = said
	return nil, nil
}

// failStep ends the run with an error.
type failStep struct{ text }

func (s *failStep) compile(c *compiler, at strictyaml.Path) { c.filled(at, &s.text) }

func (s *failStep) run(_ context.Context, r *runner) (any, error) {
	message, err := s.String(r.variables)
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s", ErrFailed, message)
}

// sleepStep waits.
type sleepStep struct{ strictyaml.Duration }

func (*sleepStep) compile(*compiler, strictyaml.Path) {}

func (s *sleepStep) run(ctx context.Context, _ *runner) (any, error) {
	return nil, retry.Sleep(ctx, time.Duration(s.Duration))
}

// awaitStep ends a turn and waits for the next prompt.
type awaitStep string

func (*awaitStep) compile(*compiler, strictyaml.Path) {}

// errOver means that there are no further prompts, so the run ends without a failure.
var errOver = errors.New("the conversation is over")

func (*awaitStep) run(_ context.Context, r *runner) (any, error) {
	if r.next == nil {
		return nil, errOver
	}
	if err := r.endTurn(); err != nil {
		return nil, err
	}
	prompt, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, errOver
	}
	if err == nil {
		r.transcript.Prompt(prompt)
	}
	return prompt, err
}

// endTurn writes the text of the turn's last say step.
func (r *runner) endTurn() error {
	_, err := io.WriteString(r.stdout, r.said)
	r.said = ""
	return err
}

// loopStep repeats steps a number of times, or for each element of a list.
type loopStep struct {
	Times *int            `json:"times,omitempty" min:"0" max:"10000"`
	Over  json.RawMessage `json:"over,omitempty"`
	As    *text           `json:"as,omitempty"`
	Steps []step          `json:"steps"`

	over  any
	named bool // return the values of iterations
}

func (s *loopStep) compile(c *compiler, at strictyaml.Path) {
	switch {
	case (s.Times == nil) == (s.Over == nil):
		c.doc.Problemf(at, `%s needs exactly one of "times" and "over"`, at)
	case s.Over != nil:
		s.over = valueOf[[]any](c, at.With("over"), s.Over, "a list")
	}
	mark := len(c.names)
	if s.As != nil {
		c.name(at.With("as"), *s.As)
	}
	c.steps(at.With("steps"), s.Steps)
	c.names = c.names[:mark]
}

// run returns a list with the value of each iteration's last step. If the loop has no name, it returns an
// empty list, so that a long loop does not keep all values.
func (s *loopStep) run(ctx context.Context, r *runner) (any, error) {
	items, err := s.items(r.variables)
	if err != nil {
		return nil, err
	}
	results := []any{}
	for _, item := range items {
		result, err := s.iterate(ctx, r, item)
		if err != nil {
			return nil, err
		}
		if s.named {
			results = append(results, result)
		}
	}
	return results, nil
}

func (s *loopStep) items(v *template.Variables) ([]any, error) {
	if s.Times != nil {
		return countTo(*s.Times), nil
	}
	value, err := template.Fill(s.over, v)
	if err != nil {
		return nil, err
	}
	return typed[[]any](value, "over must be a list and is")
}

func countTo(n int) []any {
	numbers := make([]any, n)
	for i := range numbers {
		numbers[i] = number(i + 1)
	}
	return numbers
}

func (s *loopStep) iterate(ctx context.Context, r *runner, item any) (any, error) {
	if r.iterations++; r.iterations > maxIterations {
		return nil, fmt.Errorf("more than %d iterations in all", maxIterations)
	}
	mark := r.variables.Mark()
	defer r.variables.Release(mark)
	if s.As != nil {
		r.variables.Bind(s.As.written, item)
	}
	return r.steps(ctx, s.Steps)
}

// runStep runs a program in the workspace.
type runStep struct {
	Command []text   `json:"command"`
	Exit    exitCode `json:"expect_exit,omitzero"`
}

func (s *runStep) compile(c *compiler, at strictyaml.Path) {
	check := c.filled
	for i := range s.Command {
		check(at.With("command", i), &s.Command[i])
		check = c.text // arguments may be empty
	}
}

func (s *runStep) run(ctx context.Context, r *runner) (any, error) {
	argv := make([]string, len(s.Command))
	for i, arg := range s.Command {
		var err error
		if argv[i], err = arg.String(r.variables); err != nil {
			return nil, err
		}
	}
	arguments := map[string]any{"command": strings.Join(argv, " ")}
	return r.builtin("run_command", arguments, func() (any, error) { return s.execute(ctx, r, argv) })
}

func (s *runStep) execute(ctx context.Context, r *runner, argv []string) (any, error) {
	stdout, stderr, code, err := r.execute(ctx, argv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	if !s.Exit.any && code != s.Exit.code {
		return nil, fmt.Errorf("%w: expected exit code %d of %s, got %d: %s", ErrUnexpected, s.Exit.code, argv[0], code, excerpt(stderr))
	}
	fields := map[string]any{"stdout": stdout, "stderr": stderr, "exit_code": number(code)}
	return withJSON(fields, stdout), nil
}

// execute runs argv. code is -1 if a signal killed the program.
func (r *runner) execute(ctx context.Context, argv []string) (stdout, stderr string, code int, err error) {
	out, complaint := &bounded.Head{Limit: maxOutput}, &bounded.Head{Limit: maxOutput}
	code, err = proc.ExitCode(proc.Run(ctx, proc.Command{Args: argv, Dir: r.workspace.Name(), Env: os.Environ(), Stdout: out, Stderr: complaint}))
	if err != nil {
		return "", "", 0, err
	}
	if stdout, err = whole(out); err != nil {
		return "", "", 0, fmt.Errorf("stdout: %w", err)
	}
	if stderr, err = whole(complaint); err != nil {
		return "", "", 0, fmt.Errorf("stderr: %w", err)
	}
	return stdout, stderr, code, nil
}

// whole returns an output as text. It returns an error if the output was truncated.
func whole(out *bounded.Head) (string, error) {
	if out.Over() > 0 {
		return "", errTooLong
	}
	return plainText(out.Bytes())
}

// excerpt returns the beginning of text on one line.
func excerpt(text string) string {
	const limit = 200
	words := strings.Join(strings.Fields(text), " ")
	if words == "" {
		return "(no text)"
	}
	if len(words) > limit {
		return strings.ToValidUTF8(words[:limit], "") + "…"
	}
	return words
}

// maxOutput is the maximum size of a file, or of a program's output, in bytes.
const maxOutput = 4 << 20

var (
	errTooLong = fmt.Errorf("more than %d bytes", maxOutput)
	errNotText = errors.New("not UTF-8 text")
)

// readStep reads a file of the workspace.
type readStep struct {
	Path text `json:"path"`
}

func (s *readStep) compile(c *compiler, at strictyaml.Path) { c.filled(at.With("path"), &s.Path) }

func (s *readStep) run(_ context.Context, r *runner) (any, error) {
	path, err := s.Path.String(r.variables)
	if err != nil {
		return nil, err
	}
	return r.builtin("read_file", map[string]any{"path": path}, func() (any, error) {
		content, err := r.readFile(path)
		if err != nil {
			return nil, err
		}
		return withJSON(map[string]any{"text": content}, content), nil
	})
}

func (r *runner) readFile(path string) (string, error) {
	file, err := r.workspace.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxOutput+1))
	if err != nil {
		return "", err
	}
	text, err := plainText(content)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

// plainText returns content as a string. It returns an error if JSON cannot represent it unchanged.
func plainText(content []byte) (string, error) {
	if len(content) > maxOutput {
		return "", errTooLong
	}
	if !utf8.Valid(content) {
		return "", errNotText
	}
	return string(content), nil
}

// writeStep writes a file of the workspace, and creates its directory.
type writeStep struct {
	Path    text `json:"path"`
	Content text `json:"content"`
}

func (s *writeStep) compile(c *compiler, at strictyaml.Path) {
	c.filled(at.With("path"), &s.Path)
	c.text(at.With("content"), &s.Content)
}

func (s *writeStep) run(_ context.Context, r *runner) (any, error) {
	path, err := s.Path.String(r.variables)
	if err != nil {
		return nil, err
	}
	content, err := s.Content.String(r.variables)
	if err != nil {
		return nil, err
	}
	arguments := map[string]any{"path": path, "file_text": content}
	_, err = r.builtin("write_file", arguments, func() (any, error) {
		if err := r.workspace.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := r.workspace.WriteFile(path, []byte(content), 0o644); err != nil {
			return nil, err
		}
		return map[string]any{"bytes": number(len(content))}, nil
	})
	return nil, err
}

// builtin calls do, and records it in the transcript as a call of a builtin tool.
func (r *runner) builtin(tool string, arguments any, do func() (any, error)) (any, error) {
	raw, err := evidence.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	call := r.transcript.Start(tool, raw)
	value, err := do()
	result := value
	if err != nil {
		result = map[string]any{"error": err.Error()}
	}
	raw, encodeErr := evidence.Marshal(result)
	call.Complete(err == nil, raw)
	return value, errors.Join(err, encodeErr)
}
