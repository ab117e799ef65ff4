package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/template"
)

// sayStep writes a message of the assistant.
type sayStep struct{ text text }

func (p *parser) say(n node) action { return sayStep{p.text(n)} }

func (s sayStep) run(_ context.Context, r *runner) (any, error) {
	said, err := s.text.String(r.variables)
	if err != nil {
		return nil, err
	}
	r.transcript.Say(said)
	r.said = said
	return nil, nil
}

// failStep ends the run with an error.
type failStep struct{ message text }

func (p *parser) fail(n node) action { return failStep{p.filledText(n)} }

func (s failStep) run(_ context.Context, r *runner) (any, error) {
	message, err := s.message.String(r.variables)
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s", ErrFailed, message)
}

// sleepStep waits.
type sleepStep struct{ duration time.Duration }

func (p *parser) sleep(n node) action { return sleepStep{p.duration(n)} }

func (s sleepStep) run(ctx context.Context, _ *runner) (any, error) {
	return nil, retry.Sleep(ctx, s.duration)
}

// awaitStep ends a turn and waits for the next prompt.
type awaitStep struct{}

func (p *parser) await(n node) action {
	if what := p.plainString(n); what != "prompt" && what != "" {
		p.failf(n.path, `must be "prompt", the one thing that can be waited for`)
	}
	return awaitStep{}
}

// errOver means that there is no further prompt, which ends the run without a failure.
var errOver = errors.New("the conversation is over")

func (awaitStep) run(_ context.Context, r *runner) (any, error) {
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

// loopStep repeats steps: a number of times, or for each element of a list.
type loopStep struct {
	times int
	over  any // nil if times is used
	as    string
	steps []step
	named bool // return the values of the iterations
}

func (p *parser) loop(n node) action {
	f := p.fields(n, "times", "over", "as", "steps")
	s := loopStep{named: n.named}
	switch {
	case f.values == nil:
	case f.has("times") == f.has("over"):
		p.failf(n.path, `needs exactly one of "times" and "over"`)
	case f.has("times"):
		s.times = p.times(f.get("times"))
	default:
		s.over = valueOf[[]any](p, f.get("over"), "must be a list or an expression")
	}
	mark := len(p.names)
	if f.has("as") {
		s.as = p.newName(f.get("as"))
	}
	s.steps = p.steps(f.need("steps"))
	p.names = p.names[:mark]
	return s
}

func (p *parser) times(n node) int {
	var times int
	if p.decode(n, &times, "a whole number") && (times < 0 || times > maxIterations) {
		p.failf(n.path, "must be from 0 to %d", maxIterations)
	}
	return times
}

// run returns the list of the values of each iteration's last step if the loop has a name, and
// otherwise an empty list, so that a long loop does not keep all values.
func (s loopStep) run(ctx context.Context, r *runner) (any, error) {
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

func (s loopStep) items(v *variables) ([]any, error) {
	if s.over == nil {
		return countTo(s.times), nil
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

func (s loopStep) iterate(ctx context.Context, r *runner, item any) (any, error) {
	if r.iterations++; r.iterations > maxIterations {
		return nil, fmt.Errorf("more than %d iterations in all", maxIterations)
	}
	mark := r.variables.mark()
	defer r.variables.release(mark)
	if s.as != "" {
		r.variables.bind(s.as, item)
	}
	return r.steps(ctx, s.steps)
}

// commandStep runs a program in the workspace.
type commandStep struct {
	command []text
	anyExit bool
	exit    int // expected code, unless anyExit
}

func (p *parser) command(n node) action {
	f := p.fields(n, "command", "expect_exit")
	var s commandStep
	command := f.need("command")
	for i, item := range p.list(command) {
		if i == 0 {
			s.command = append(s.command, p.filledText(item))
			continue
		}
		s.command = append(s.command, p.text(item))
	}
	if len(s.command) == 0 && command.raw != nil {
		p.failf(command.path, "must be a list of a program and its arguments")
	}
	s.anyExit, s.exit = p.exit(f.get("expect_exit"))
	return s
}

func (p *parser) exit(n node) (anyExit bool, code int) {
	if string(bytes.TrimSpace(n.raw)) == `"any"` {
		return true, 0
	}
	if p.decode(n, &code, `an exit code or "any"`) && (code < 0 || code > 255) {
		p.failf(n.path, "must be from 0 to 255")
	}
	return false, code
}

func (s commandStep) run(ctx context.Context, r *runner) (any, error) {
	argv := make([]string, len(s.command))
	for i, arg := range s.command {
		var err error
		if argv[i], err = arg.String(r.variables); err != nil {
			return nil, err
		}
	}
	arguments := map[string]any{"command": strings.Join(argv, " ")}
	return r.builtin("run_command", arguments, func() (any, error) { return s.execute(ctx, r, argv) })
}

func (s commandStep) execute(ctx context.Context, r *runner, argv []string) (any, error) {
	stdout, stderr, code, err := r.execute(ctx, argv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	if !s.anyExit && code != s.exit {
		return nil, fmt.Errorf("%w: expected exit code %d of %s, got %d: %s", ErrUnexpected, s.exit, argv[0], code, excerpt(stderr))
	}
	fields := map[string]any{"stdout": stdout, "stderr": stderr, "exit_code": number(code)}
	return withJSON(fields, stdout), nil
}

// execute runs argv. The code is -1 if it was killed by a signal.
func (r *runner) execute(ctx context.Context, argv []string) (stdout, stderr string, code int, err error) {
	out, complaint := &bounded.Head{Limit: maxOutput}, &bounded.Head{Limit: maxOutput}
	code, err = proc.ExitCode(proc.Run(ctx, proc.Command{Args: argv, Dir: r.workspace.Name(), Env: r.env, Stdout: out, Stderr: complaint}))
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

// whole returns an output as text. It fails if the output was truncated.
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

// maxOutput is the maximum size of a file, or of an output of a program, in bytes.
const maxOutput = 4 << 20

var (
	errTooLong = fmt.Errorf("more than %d bytes", maxOutput)
	errNotText = errors.New("not UTF-8 text")
)

// readStep reads a file of the workspace.
type readStep struct{ path text }

func (p *parser) read(n node) action {
	f := p.fields(n, "path")
	return readStep{p.filledText(f.need("path"))}
}

func (s readStep) run(_ context.Context, r *runner) (any, error) {
	path, err := s.path.String(r.variables)
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

// plainText returns content as a string. It fails if JSON could not represent it unchanged.
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
type writeStep struct{ path, content text }

func (p *parser) write(n node) action {
	f := p.fields(n, "path", "content")
	return writeStep{p.filledText(f.need("path")), p.text(f.need("content"))}
}

func (s writeStep) run(_ context.Context, r *runner) (any, error) {
	path, err := s.path.String(r.variables)
	if err != nil {
		return nil, err
	}
	content, err := s.content.String(r.variables)
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

// builtin calls do and records it in the transcript as a call of a tool.
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
