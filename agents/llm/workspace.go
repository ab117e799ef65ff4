package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/proc"
)

// Limits of files and directories.
const (
	maxFile    = 4 << 20 // bytes read of a file
	maxEntries = 1000    // entries listed of a directory
)

var errNotText = errors.New("is not UTF-8 text")

// workspace is the directory to which the file tools are confined, also when following links.
type workspace struct {
	root *os.Root
	path string // the working directory, to which paths are relative
	at   string // the working directory, relative to root
}

func openWorkspace(dir, at string) (workspace, error) {
	inside, err := filepath.Rel(dir, at)
	if err != nil || !filepath.IsLocal(inside) {
		return workspace{}, fmt.Errorf("workspace: %s does not hold %s", dir, at)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return workspace{}, fmt.Errorf("workspace: %w", err)
	}
	return workspace{root: root, path: at, at: inside}, nil
}

// inside returns a path relative to root. An absolute path may point into the workspace.
func (w workspace) inside(name string) string {
	if !path.IsAbs(name) {
		return path.Join(w.at, name)
	}
	if rest, err := filepath.Rel(w.root.Name(), path.Clean(name)); err == nil {
		return rest
	}
	return name // root rejects it
}

func (w workspace) tools() []*tool {
	return []*tool{
		local("read_file", "Reads a text file of the workspace.",
			`{"type":"object","properties":{"path":{"type":"string","description":"path in the workspace"},"offset":{"type":"integer","description":"first line, from 1; default 1"},"limit":{"type":"integer","description":"number of lines; default all"}},"required":["path"]}`, w.read),
		local("write_file", "Writes a text file of the workspace, and makes the directories that it is in.",
			`{"type":"object","properties":{"path":{"type":"string","description":"path in the workspace"},"file_text":{"type":"string","description":"all that the file holds"}},"required":["path","file_text"]}`, w.write),
		local("edit_file", "Replaces a piece of text in a file of the workspace. The piece must occur exactly once.",
			`{"type":"object","properties":{"path":{"type":"string","description":"path in the workspace"},"old_text":{"type":"string","description":"the piece, as it stands in the file"},"new_text":{"type":"string","description":"what takes its place"}},"required":["path","old_text","new_text"]}`, w.edit),
		local("list_files", "Lists a directory of the workspace. Directories end in /.",
			`{"type":"object","properties":{"path":{"type":"string","description":"path in the workspace; default the directory that paths are relative to"}}}`, w.list),
	}
}

type readArguments struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

func (w workspace) read(_ context.Context, a readArguments) result {
	text, err := readText(w.root, w.inside(a.Path))
	if err != nil {
		return failure(err.Error())
	}
	lines := strings.SplitAfter(text, "\n")
	lines = lines[min(max(a.Offset-1, 0), len(lines)):]
	if a.Limit > 0 {
		lines = lines[:min(a.Limit, len(lines))]
	}
	return result{text: strings.Join(lines, "")}
}

// readText reads a whole regular file.
func readText(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if !utf8.Valid(content) {
		return "", fmt.Errorf("%s %w", name, errNotText)
	}
	return string(content), nil
}

type writeArguments struct {
	Path string `json:"path"`
	Text string `json:"file_text"`
}

func (w workspace) write(_ context.Context, a writeArguments) result {
	name := w.inside(a.Path)
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return failure(err.Error())
	}
	return w.put(name, a.Text)
}

// put writes a file, unless it exists and is not a regular file.
func (w workspace) put(name, text string) result {
	if info, err := w.root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return failure(name + " is not a file")
	}
	if err := w.root.WriteFile(name, []byte(text), 0o644); err != nil {
		return failure(err.Error())
	}
	return result{text: fmt.Sprintf("%d bytes are written to %s", len(text), name)}
}

type editArguments struct {
	Path string `json:"path"`
	Old  string `json:"old_text"`
	New  string `json:"new_text"`
}

func (w workspace) edit(_ context.Context, a editArguments) result {
	name := w.inside(a.Path)
	text, err := readText(w.root, name)
	if err != nil {
		return failure(err.Error())
	}
	if a.Old == "" {
		return failure("old_text is empty; use write_file for a new file")
	}
	if n := strings.Count(text, a.Old); n != 1 {
		return failure(fmt.Sprintf("old_text occurs %d times in %s; it must occur once", n, name))
	}
	return w.put(name, strings.Replace(text, a.Old, a.New, 1))
}

type listArguments struct {
	Path string `json:"path"`
}

func (w workspace) list(_ context.Context, a listArguments) result {
	name := w.inside(a.Path)
	if info, err := w.root.Stat(name); err == nil && !info.IsDir() {
		return failure(name + " is not a directory") // opening a pipe would block
	}
	dir, err := w.root.Open(name)
	if err != nil {
		return failure(err.Error())
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return failure(err.Error())
	}
	var names []string
	for _, entry := range entries[:min(len(entries), maxEntries)] {
		names = append(names, entryName(entry))
	}
	return result{text: listing(names, len(entries) > maxEntries)}
}

func entryName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

// Limits of a command.
const (
	commandTimeout    = 2 * time.Minute // default
	maxCommandTimeout = 30 * time.Minute
	maxOutput         = 64 << 10 // bytes of stdout, and of stderr
)

type commandArguments struct {
	Command string `json:"command"`
	Seconds int    `json:"timeout_seconds"`
}

// shellTool returns the tool that runs commands with a shell, in dir.
func shellTool(shell, dir string) *tool {
	schema := fmt.Sprintf(`{"type":"object","properties":{"command":{"type":"string","description":"the command, for sh -c"},"timeout_seconds":{"type":"integer","description":"how long it may take, up to %d; default %d"}},"required":["command"]}`,
		maxCommandTimeout/time.Second, commandTimeout/time.Second)
	return local("run_command", "Runs a shell command in the workspace and gives its output and exit code.", schema,
		func(ctx context.Context, a commandArguments) result { return runCommand(ctx, shell, dir, a) })
}

func runCommand(ctx context.Context, shell, dir string, a commandArguments) result {
	if strings.ContainsRune(a.Command, 0) {
		return failure("a command cannot hold a NUL character")
	}
	limit := commandTimeout
	if a.Seconds > 0 {
		limit = min(time.Duration(min(a.Seconds, 1<<20))*time.Second, maxCommandTimeout)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stdout, stderr := &bounded.Head{Limit: maxOutput}, &bounded.Head{Limit: maxOutput}
	code, err := proc.ExitCode(proc.Run(limited, proc.Command{Args: []string{shell, "-c", a.Command}, Dir: dir, Stdout: stdout, Stderr: stderr}))
	output := outputs(stdout, stderr)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure(fmt.Sprintf("%sthe command was killed after %s", output, limit))
	case err != nil:
		return failure(err.Error())
	default:
		return result{text: fmt.Sprintf("%s[exit code %d]", output, code), failed: code != 0}
	}
}

// outputs formats a program's outputs, each ending in a newline.
func outputs(stdout, stderr *bounded.Head) string {
	var text strings.Builder
	for _, out := range []struct {
		name string
		*bounded.Head
	}{{"", stdout}, {"[stderr]\n", stderr}} {
		if len(out.Bytes()) == 0 {
			continue
		}
		text.WriteString(out.name + strings.TrimSuffix(out.String(), "\n") + "\n")
		if over := out.Over(); over > 0 {
			fmt.Fprintf(&text, "[%d more bytes are left out]\n", over)
		}
	}
	return text.String()
}
