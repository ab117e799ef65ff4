package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
)

// maxOutput is how many bytes of a file, or of one output of a program, a step
// takes.
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
	path, err := s.path.string(r.variables)
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

// plainText refuses what could not go into JSON unchanged.
func plainText(content []byte) (string, error) {
	if len(content) > maxOutput {
		return "", errTooLong
	}
	if !utf8.Valid(content) {
		return "", errNotText
	}
	return string(content), nil
}

// writeStep writes a file of the workspace, and the directories it is in.
type writeStep struct{ path, content text }

func (p *parser) write(n node) action {
	f := p.fields(n, "path", "content")
	return writeStep{p.filledText(f.need("path")), p.text(f.need("content"))}
}

func (s writeStep) run(_ context.Context, r *runner) (any, error) {
	path, err := s.path.string(r.variables)
	if err != nil {
		return nil, err
	}
	content, err := s.content.string(r.variables)
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

// builtin does something under a tool's name in the transcript.
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
