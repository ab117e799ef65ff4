package script

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/agents/internal/program"
	"github.com/waza-isolate/waza/internal/bounded"
)

// commandStep runs a program in the workspace.
type commandStep struct {
	command []text
	anyExit bool
	exit    int // expected, unless anyExit
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
		if argv[i], err = arg.string(r.variables); err != nil {
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

// execute runs argv to its end. The code is -1 where a signal ended it.
func (r *runner) execute(ctx context.Context, argv []string) (stdout, stderr string, code int, err error) {
	result, err := program.Run(ctx, program.Command{Args: argv, Dir: r.workspace.Name(), Env: r.env, Keep: maxOutput})
	if err != nil {
		return "", "", 0, err
	}
	if stdout, err = whole(result.Stdout); err != nil {
		return "", "", 0, fmt.Errorf("stdout: %w", err)
	}
	if stderr, err = whole(result.Stderr); err != nil {
		return "", "", 0, fmt.Errorf("stderr: %w", err)
	}
	return stdout, stderr, result.Code, nil
}

// whole is an output as text, all of it.
func whole(out *bounded.Head) (string, error) {
	if out.Over() > 0 {
		return "", errTooLong
	}
	return plainText(out.Bytes())
}

// excerpt makes the beginning of text fit into one sentence.
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
